//! The bytes of every event, row and table. A changed byte is a change of the durable format and needs
//! a new version of the tag.
//!
//! `UPDATE_GOLDEN=1` adds lines for new tags and changes no existing line.
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
use summarizer::contract::time::{Day, Timestamp};
use summarizer::contract::vocabulary::{
    AckStatus, Bus, ErrorClass, FailureCause, QuarantineReason, ReasonCode, Stream, SummaryKind,
    Urgency, Warning, Warnings,
};
use summarizer::facts::JsonObject;
use summarizer::facts::agent_run::{
    AgentRunFact, CompactionFailed, EventsAppended, FileMark, SnapshotPointer, SnapshotTaken,
};
use summarizer::facts::attempt::{
    InputFacts, Recovered, SelectionInput, SourceCounts, SourcePlace, SourcePlaces, UpstreamInput,
};
use summarizer::facts::batch::{
    BatchEnd, BatchFact, BatchedQuestion, EndedBatch, PreparedBatch, SubmittedBatch,
};
use summarizer::facts::dialect::{Dialect, LearnedDialect};
use summarizer::facts::digest::{
    BagFacts, BagType, BagsCollected, BuildFinished, BuildPublished, BuildStarted, Channel,
    DigestFact, GroupFacts, MemoFacts, PairFacts, TaskSettled, WindowFacts, WindowType,
};
use summarizer::facts::failure::{ErrorDetails, ErrorFacts, ModelFailure};
use summarizer::facts::model::{
    AnswerFacts, CallFacts, ModelIdentity, Provenance, StopReason, Usage,
};
use summarizer::facts::note::{DaysMissing, InputNote};
use summarizer::facts::publication::{DayOpened, PublishFailed};
use summarizer::facts::queue::{ConsumedBatch, Identity, Position, QueueMark};
use summarizer::facts::recovery::{Loss, RecoveryReport, RunRecordKept};
use summarizer::facts::retention::{
    AcksArchived, AcksMoved, AnswersDropped, FramesArchived, RetentionApplied, RetentionFact,
};
use summarizer::facts::session::{
    Host, PauseCause, Promoted, Promotion, SessionReport, WaitReason, WaitingWork, WorkLeft,
};
use summarizer::log::codec::{self, Cursor};
use summarizer::state::event::{
    AckHead, BadLine, Charge, Event, Forgotten, PassedOver, RawLine, RawMember, RequestLine,
    SessionEnd, SummaryPointer, Superseded, TakenRequest, ToldWait,
};
use summarizer::state::flows::{Charged, DayCharged, Flows};
use summarizer::state::schedule::Place;
use summarizer::state::{Ledger, Open, Particulars, Row, SessionInfo, Status, Totals};

fn batch(fact: BatchFact) -> Event {
    Event::Batch(Box::new(fact))
}

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
    let (request, attempt) = (Seq(300), 2);
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
    let mut samples = vec![
        Event::SessionStarted {
            run_id: "run_1".into(),
            command: "drain".into(),
            version: "0.1.0".into(),
            config: sha256("config"),
            host: Box::new(Host {
                os: "linux".into(),
                arch: "x86_64".into(),
                hostname: Some("host".into()),
                timezone: Some("UTC".into()),
                pid: 300,
            }),
        },
        Event::SessionFinished {
            run_id: "run_1".into(),
            started: Seq(1),
            end: SessionEnd::Crashed,
            report: report(),
        },
        Event::LineQuarantined(Box::new(bad.clone())),
        Event::RequestAccepted(taken()),
        Event::RequestParked {
            request: taken(),
            behind: Seq(4),
            behind_request_id: "first".into(),
        },
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
            input: input(),
            sources: places(),
        },
        Event::WorkHeld {
            request,
            attempt,
            behind: Seq(5),
            summary: summary(),
            told: Some(ToldWait {
                head: head(),
                behind_request_id: "req_b".to_owned(),
                warnings: warnings(),
            }),
        },
        Event::WorkReleased { request },
        Event::ModelResponded {
            request,
            attempt,
            call: sha256("call"),
            body_sha256: sha256("body"),
            answer: Box::new(AnswerFacts {
                identity: identity(),
                usage: Usage { input_tokens: 300, output_tokens: 7 },
                stop: StopReason::End,
            }),
        },
        Event::SummaryProduced {
            request,
            attempt,
            head: head(),
            summary: summary(),
            body_sha256: sha256("item"),
            warnings: warnings(),
            supersedes: Some(Seq(9)),
            input: input(),
            provenance: Some(provenance()),
        },
        Event::AttemptFailed {
            request,
            attempt,
            head: head(),
            status: AckStatus::FailedTransient,
            reason: Some(ReasonCode::Timeout),
            cause: Some(FailureCause::Timeout),
            message: "slow".into(),
            retry_at: Some(Timestamp(1_770_850_999_999)),
            counted: true,
            warnings: warnings(),
            supersedes: None,
            input: input(),
            error: None,
        },
        Event::RequestSkipped {
            request,
            attempt,
            head: head(),
            reason: ReasonCode::SkippedEmptyContent,
            warnings: warnings(),
            supersedes: None,
            input: Box::default(),
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
        Event::DayOpened(Box::new(DayOpened { day: day(), inputs: vec![upstream()] })),
        Event::PublishFailed(PublishFailed { message: "full".into(), violation: true }),
        Event::LogRecovered(Box::new(RecoveryReport {
            records_kept: 300,
            records_lost: true,
            damage: Some("record 5".into()),
            acks_read: 1,
            acks_unreadable: 2,
            lines: 3,
            queue_change: Some("shrank".into()),
            outputs_recognized: 4,
            outputs_adopted: 5,
            run_records: 9,
            ended: 6,
            open: 7,
            unknown: BTreeMap::from([(
                "days".to_owned(),
                Loss { means: "no day".into(), count: 8, examples: vec!["req".into()] },
            )]),
        })),
        Event::RunRecordKept(Box::new(RunRecordKept {
            run_id: "run".into(),
            day: day(),
            row: "{}".into(),
        })),
        Event::ReceiptKept { body_sha256: sha256("receipt") },
        Event::KeyYielded {
            request,
            head: head(),
            behind: Seq(301),
            behind_request_id: "sooner".into(),
            warnings: warnings(),
        },
    ];
    samples.extend(errors().into_iter().map(|error| Event::AttemptFailed {
        request,
        attempt,
        head: head(),
        status: AckStatus::FailedPermanent,
        reason: None,
        cause: None,
        message: "no".into(),
        retry_at: None,
        counted: true,
        warnings: warnings(),
        supersedes: None,
        input: Box::default(),
        error: Some(Box::new(error)),
    }));
    samples.extend(agent_runs().into_iter().map(|fact| Event::AgentRun(Box::new(fact))));
    samples.extend(digests().into_iter().map(Event::Digest));
    samples.extend(retentions().into_iter().map(Event::Retention));
    samples.extend([true, false].map(|done| {
        Event::Digest(DigestFact::TaskSettled(TaskSettled {
            task_id: "task_00000000000000ff".into(),
            done,
            summary_id: "sum_1".into(),
        }))
    }));
    samples.extend([
        Event::ProviderPassedOver {
            request,
            attempt,
            failure: Box::new(PassedOver {
                provider: "first".into(),
                model: "m".into(),
                cause: FailureCause::ConnectionRefused,
                message: "refused".into(),
                answered_by: "local".into(),
            }),
        },
        Event::WorkLeft(Box::new(WorkLeft {
            waits: vec![WaitingWork {
                reason: WaitReason::Cause(FailureCause::Budget),
                requests: 300,
                next: Some(Timestamp(1_772_359_200_000)),
            }]
            .into_iter()
            .chain(
                [
                    WaitReason::Reason(ReasonCode::Unavailable),
                    WaitReason::Unknown,
                    WaitReason::Pause(PauseCause::DiskSpace),
                ]
                .map(|reason| WaitingWork { reason, requests: 1, next: None }),
            )
            .collect(),
            unread_bytes: 1 << 40,
        })),
        batch(BatchFact::Prepared(PreparedBatch {
            batch: "sumbatch_01".into(),
            provider: "hosted".into(),
            model: "m".into(),
            questions: vec![BatchedQuestion {
                request,
                call: sha256("call"),
                identity: ModelIdentity { provider: "hosted".into(), ..ModelIdentity::default() },
                expected: Usage { input_tokens: 10, output_tokens: 20 },
                redacted: 1,
            }],
        })),
        batch(BatchFact::Submitted(SubmittedBatch {
            batch: "sumbatch_01".into(),
            server_id: "batch_0".into(),
        })),
        batch(BatchFact::Ended(EndedBatch {
            batch: "sumbatch_01".into(),
            end: BatchEnd::Expired,
            answered: 7,
            refused: vec![sha256("call")],
            message: "too late".into(),
        })),
        Event::DialectLearned(Box::new(LearnedDialect {
            provider: "hosted".into(),
            server: "http://127.0.0.1:1/v1".into(),
            model: "m".into(),
            dialect: Dialect {
                left_out: ["seed".to_owned(), "top_p".to_owned()].into(),
                renamed: [("max_tokens".to_owned(), "max_completion_tokens".to_owned())].into(),
                refused_json: ["json_schema".to_owned()].into(),
                no_system: true,
                answer_max: Some(4_096),
                context: Some(8_192),
            },
        })),
        Event::SourceBecamePrivate { request, made: Seq(9), summary: summary() },
        Event::Forgotten(Box::new(Forgotten {
            sources: vec!["doc_1".into()],
            files: vec!["a.md".into()],
            summaries: vec![summary()],
            bags: vec!["bag_1".into()],
            bodies: vec![Seq(8), Seq(9)],
        })),
        Event::LineQuarantined(Box::new(BadLine {
            raw: RawLine::Away { member: RawMember::Text, shown: 300 },
            ..bad
        })),
    ]);
    let beside = || {
        let line = RequestLine::to_seal(b"{\"a\":\"words\"}".to_vec().into());
        Box::new(TakenRequest { line, ..*taken() })
    };
    let with_lines = [
        Event::RequestAccepted(beside()),
        Event::RequestParked {
            request: beside(),
            behind: Seq(9),
            behind_request_id: "first".into(),
        },
        Event::RequestRejected {
            request: beside(),
            status: AckStatus::RejectedInvalidInput,
            reason: Some(ReasonCode::InvalidParams),
            message: "no".into(),
        },
        Event::DuplicateReceived {
            request: beside(),
            of: request,
            of_request_id: "first".into(),
            reason: ReasonCode::OutputExists,
            summary: summary(),
        },
    ];
    // The words lie beside the record, and the event has none of them.
    samples.extend(with_lines.iter().map(|event| event.without_line().unwrap().0));
    samples.push(Event::LinesPassed { start: 12, end: 300 });
    samples
}

fn day() -> Day {
    "2026-02-11".parse().unwrap()
}

fn upstream() -> UpstreamInput {
    UpstreamInput {
        path: "eventbus/2026-02-11.jsonl".into(),
        bus: Bus::EventBus,
        partition: "2026-02-11".into(),
        data_sha256: Some(sha256("data")),
        data_bytes: Some(70_000),
        manifest_path: Some("eventbus/manifest.json".into()),
        manifest_sha256: Some(sha256("manifest")),
        schema_version: Some("event.v1".into()),
    }
}

fn input() -> Box<InputFacts> {
    Box::new(InputFacts {
        stream: Some(Stream::Events),
        day: Some(day()),
        inputs: vec![upstream()],
        inputs_omitted: 2,
        source_text_hash: Some(sha256("texts")),
        counts: SourceCounts { sources: 3, used: 2, skipped: 1 },
        notes: vec![
            InputNote::DaysMissing(DaysMissing {
                bus: Bus::EventBus,
                listed: vec![day()],
                more: 3,
            }),
            InputNote::SessionCutFromOtherEvents { path: "s.jsonl".into(), session: "s1".into() },
            InputNote::AppendedAfterManifest { path: "a.jsonl".into() },
            InputNote::ManifestName { path: "m.json".into() },
            InputNote::UndatedFiles { texts: 300 },
            InputNote::UnreadableFiles { files: 2 },
        ],
        selection: Some(SelectionInput {
            path: "selection.json".into(),
            sha256: sha256("selection"),
            selection_hash: "sha256:aa".into(),
        }),
        recovered: Some(Recovered {
            ack_seq: Seq(5),
            log_head: Some(sha256("head")),
            at: "2026-02-11T00:00:00.000Z".into(),
        }),
    })
}

fn places() -> Box<SourcePlaces> {
    let place =
        |id: &str| SourcePlace { id: id.into(), line: 1, offset: 300, len: 20, text_bytes: 10 };
    let mut places = SourcePlaces { files: Vec::new(), omitted: 4 };
    places.push("a.jsonl", place("one"));
    places.push("a.jsonl", place("two"));
    places.push("b.jsonl", place("three"));
    assert_eq!(places.files.len(), 2, "neighbours of one file share its name");
    Box::new(places)
}

fn identity() -> ModelIdentity {
    ModelIdentity {
        provider: "local".into(),
        model_name: "m".into(),
        model_version: "1".into(),
        temperature: Some(0.5),
        max_tokens: Some(300),
        deterministic_mode: Some(true),
        seed: Some(-7),
    }
}

fn provenance() -> Box<Provenance> {
    let call = |stop| CallFacts {
        node: "ask".into(),
        turn: 1,
        request_hash: Some(sha256("call")),
        rendered_sha256: sha256("rendered"),
        reused: true,
        stop,
    };
    let params = serde_json::json!({"b": [1, null], "a": "é"});
    Box::new(Provenance {
        flow: "flow.v1@strict".into(),
        pack_hash: sha256("pack"),
        prompt_hash: sha256("prompt"),
        rendered_prompt_sha256: sha256("rendered"),
        engine: "jinja".into(),
        engine_version: "2".into(),
        model: identity(),
        usage: Usage { input_tokens: 300, output_tokens: 7 },
        calls: StopReason::ALL.iter().copied().map(call).collect(),
        warnings: vec!["unknown_param".into()],
        configured_params: JsonObject(params.as_object().unwrap().clone()),
    })
}

fn report() -> Box<SessionReport> {
    let output = |promotion_status| Promoted {
        path: "day.jsonl".into(),
        manifest_path: "manifest.json".into(),
        data_hash: Some(sha256("day")),
        schema_version: "event_summary.v1".into(),
        promotion_status,
    };
    Box::new(SessionReport {
        events: 300,
        lines: 2,
        commits: 3,
        outcomes: BTreeMap::from([("completed".to_owned(), 5)]),
        outputs: Promotion::ALL.iter().copied().map(output).collect(),
        snapshot: Some(SnapshotPointer {
            run_id: "run".into(),
            sequence: 4,
            snapshot_id: "snap".into(),
            seq: Seq(70_000),
        }),
        error: Some("stopped".into()),
    })
}

/// Every form of details once.
fn errors() -> Vec<ErrorFacts> {
    let text = || Some("text".to_owned());
    let details = [
        ErrorDetails::Input {
            input_name: "name".into(),
            expected_path: text(),
            expected_manifest_path: text(),
            source_id: text(),
        },
        ErrorDetails::Schema {
            artifact_family: "event_bus".into(),
            schema_version_seen: text(),
            schema_version_supported: vec!["event.v1".into()],
            validation_error_summary: "summary".into(),
            sample_evidence: "line 1".into(),
        },
        ErrorDetails::Integrity {
            manifest_path: text(),
            observed_hash: text(),
            declared_hash: text(),
            observed_counts: Some(1),
            declared_counts: Some(2),
        },
        ErrorDetails::Storage { storage_location: "disk".into(), operation: "read".into() },
        ErrorDetails::Model(Box::new(ModelFailure {
            provider: "local".into(),
            model_name: "m".into(),
            prompt_hash: sha256("prompt"),
            selection_manifest_refs: vec!["selection.json".into()],
            retryable: true,
            usage: Usage { input_tokens: 1, output_tokens: 2 },
            calls: 3,
            violations: vec![Violation { pointer: "/a".into(), message: "no".into() }],
        })),
        ErrorDetails::Provider { flow_id: "flow.v1".into() },
        ErrorDetails::Unasked,
        ErrorDetails::Pack { flow: "flow.v1".into() },
        ErrorDetails::Param { param: "day".into() },
        ErrorDetails::Item,
        ErrorDetails::Publication {
            publish_target: "summaries".into(),
            staging_path: ".summaries.shadow".into(),
            promotion_status: Promotion::NotWritten,
        },
    ];
    let error =
        |details| ErrorFacts { class: ErrorClass::SchemaMismatch, subtype: "CODE".into(), details };
    details.into_iter().map(error).collect()
}

fn agent_runs() -> Vec<AgentRunFact> {
    let (covers, resume_from) = (Some(Seq(40)), Some(Seq(30)));
    let run_id = || "run".to_owned();
    vec![
        AgentRunFact::EventsAppended(EventsAppended {
            run_id: run_id(),
            first_seq: 1,
            last_seq: 300,
            previous: Seq(5),
            sha256: sha256("lines"),
            source: Some(FileMark {
                file: "run.jsonl".into(),
                end: 300,
                lines: 4,
                covered: 5,
                sha256: sha256("line"),
            }),
        }),
        AgentRunFact::SnapshotTaken(SnapshotTaken {
            run_id: run_id(),
            sequence: 2,
            snapshot_id: "snap".into(),
            to_seq: 300,
            previous: Seq(6),
            sha256: sha256("snapshot"),
            covers,
            resume_from,
            closes: true,
        }),
        AgentRunFact::CompactionFailed(CompactionFailed {
            run_id: run_id(),
            sequence: 2,
            after_seq: 300,
            message: "gate".into(),
            covers,
            resume_from,
        }),
    ]
}

fn digests() -> Vec<DigestFact> {
    let run_id = || "run".to_owned();
    let bag = |bag_type, window_type| {
        let memo = |channel| MemoFacts { memo_slug: "slug".into(), channel };
        DigestFact::Bag(Box::new(BagFacts {
            bag_id: "bag_1".into(),
            bag_type,
            window: WindowFacts {
                window_type,
                start_day: Some(day()),
                end_day: Some(day()),
                label: "2026-W07".into(),
                tz: "UTC".into(),
            },
            group: Some(GroupFacts { by: "tag".into(), key: "free:a".into() }),
            selector_id: "weekly".into(),
            selector_version: "1".into(),
            selector_hash: sha256("selector"),
            summaries_hash: sha256("summaries"),
            title: "Title".into(),
            tags: vec!["free:a".into()],
            pair: Some(PairFacts { count: 3, lift: 1.5, npmi: -0.25, edge_score: 0.0 }),
            candidate: 300,
            selected: 2,
            memos: Channel::ALL.iter().copied().map(memo).collect(),
            bag_meta_sha256: sha256("meta"),
            trace_sha256: sha256("trace"),
            created_at: "2026-02-11T00:00:00.000Z".into(),
            run_id: run_id(),
        }))
    };
    let types = BagType::ALL.iter().copied().cycle();
    let bags =
        WindowType::ALL.iter().copied().zip(types).map(|(window, of_bag)| bag(of_bag, window));
    let mut facts = vec![
        DigestFact::Started(BuildStarted { run_id: run_id(), trigger: "build".into() }),
        DigestFact::Published(BuildPublished { run_id: run_id(), bags: 2 }),
        DigestFact::Collected(BagsCollected { run_id: run_id(), bags: 3 }),
        DigestFact::Finished(Box::new(BuildFinished {
            run_id: run_id(),
            ok: true,
            day: day(),
            row: "{}".into(),
            considered: Some(Seq(300)),
            selectors: BTreeMap::from([("weekly".to_owned(), "hash UTC".to_owned())]),
        })),
    ];
    facts.extend(bags);
    facts
}

fn retentions() -> Vec<RetentionFact> {
    let before = Timestamp(1_770_850_931_000);
    let answers = AnswersDropped { dropped: 1, bytes: 300, before };
    vec![
        RetentionFact::AnswersDropped(answers.clone()),
        RetentionFact::AcksMoved(AcksMoved {
            through: Seq(9),
            lines: 2,
            file: "acks".into(),
            hash: sha256(b"acks"),
        }),
        RetentionFact::Applied(RetentionApplied {
            answers: Some(answers),
            acks: Some(AcksArchived { moved: 2, bytes: 300, before }),
            frames: Some(FramesArchived {
                records: 4,
                segments: Some(1),
                bytes: Some(300),
                before,
            }),
            by: "service".into(),
        }),
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
fn the_bytes_of_events_are_unchanged() {
    let samples = samples();
    let current: BTreeMap<String, String> = samples
        .iter()
        .enumerate()
        .map(|(number, event)| {
            let (tag, version, payload) = codec::encode(event);
            (format!("{tag:03}.{version}.{}.{number:02}", event.name()), hex(&payload))
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

/// Bytes that an older program wrote: a settled task had the words of the task, and work that waits told nobody.
#[test]
fn earlier_versions_are_still_read() {
    let held = codec::decode(12, 1, &bytes("fb2c0102050573756d5f3003fb1ea0")).unwrap();
    assert!(matches!(held, Event::WorkHeld { behind: Seq(5), told: None, .. }), "{held:?}");
    let id = "157461736b5f30303030303030303030303030306666";
    for (done, flag) in [(true, "01"), (false, "00")] {
        let old = format!("06{id}{flag}0c506179207468652072656e740573756d5f31");
        let read = codec::decode(31, 1, &bytes(&old)).unwrap();
        let (task_id, summary_id) = ("task_00000000000000ff".into(), "sum_1".into());
        let settled = TaskSettled { task_id, done, summary_id };
        assert_eq!(read, Event::Digest(DigestFact::TaskSettled(settled)));
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
fn the_bytes_of_tables_are_unchanged() {
    let row = Row {
        status: Status::Duplicate,
        reason: Some(ReasonCode::OutputExists),
        cause: Some(FailureCause::ConnectionRefused),
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
        lost: 3,
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
        session: Some(SessionInfo {
            run_id: "run_1".into(),
            command: "serve".into(),
            started: Seq(1),
            started_at: Timestamp(2),
        }),
        producers: vec![(0, "repo".into(), Seq(3))],
        digests_open: true,
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
    let identity = Identity { device: 1, inode: 2, head_len: 300, head: sha256("head") };
    let mark = QueueMark {
        position: Position {
            offset: 1 << 33,
            lines: 5,
            identity: Some(identity),
            chain: sha256("chain"),
            tail_len: 65_536,
            tail: sha256("tail"),
        },
        consumed: Some(ConsumedBatch { start: 4, end: 1 << 33, hash: sha256("batch") }),
    };
    let current = BTreeMap::from([
        ("cursor".to_owned(), hex(&codec::encode_cursor(&cursor))),
        ("flows".to_owned(), hex(&codec::encode_flows(&flows))),
        ("ledger".to_owned(), hex(&codec::encode_ledger(&ledger))),
        ("queue_mark".to_owned(), hex(&codec::encode_mark(&mark))),
        ("open".to_owned(), hex(&codec::encode_open(&open))),
        ("row".to_owned(), hex(&codec::encode_row(&row))),
    ]);
    let golden = check("tables.txt", &current);
    assert_eq!(golden, current, "the durable bytes of a table changed");
    assert_eq!(codec::decode_cursor(&bytes(&golden["cursor"])).unwrap(), cursor);
    assert_eq!(codec::decode_flows(&bytes(&golden["flows"])).unwrap(), flows);
    assert_eq!(codec::decode_ledger(&bytes(&golden["ledger"])).unwrap(), ledger);
    assert_eq!(codec::decode_marks(&bytes(&golden["queue_mark"])).unwrap().alone(), Some(&mark));
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
                // Any bytes must decode without a panic and with bounded memory.
                drop(codec::decode(tag, version, &damaged));
            }
        }
    }
    assert!(codec::decode(999, 1, b"").is_err());
    assert_eq!(Digest::ZERO.hex().len(), 64);
}
