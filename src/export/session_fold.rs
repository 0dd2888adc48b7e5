//! OpenSession records as a function of committed events.
//!
//! Contract: every statement about a session follows from the events between its `SessionStarted` and its
//! `SessionFinished`, which carries what only the session itself could know: what it promoted. A session
//! that was killed is finished by the next one, and its record says so. Memory is bounded by the kinds of
//! things that happened and by the requests whose last attempt failed, not by how many happened.
//!
//! An attempt that failed is an error of the session while no later attempt of its request succeeded,
//! and a warning once one did.
//!
//! See docs/adr/0050-run-records-from-the-log.md.
//! See docs/adr/0108-failures-behind-fallbacks-and-work-that-waits.md.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::run_record::{
    Counters, Environment, Evidence, Project, Resolution, RunError, RunInput, RunOutput, RunRecord,
    RunStatus, RunWarning, SchemaVersions, Severity, Stage, StageStatus,
};
use super::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::contract::ids::Seq;
use crate::contract::privacy::without_file_names;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{
    AckStatus, Bus, ErrorClass, FailureCause, ReasonCode, Warnings, spellings,
};
use crate::facts::agent_run::SnapshotPointer;
use crate::facts::attempt::{InputFacts, UpstreamInput};
use crate::facts::failure::{ErrorDetails, ErrorFacts};
use crate::facts::model::Usage;
use crate::facts::note::InputNote;
use crate::facts::session::{
    Host, Promoted, Promotion, SessionReport, WaitReason, WaitingWork, WorkLeft,
};
use crate::state::event::{Event, PassedOver, SessionEnd};

/// Skips in one session above which they are listed in a file of their own.
pub(crate) const SKIPS_LISTED_ABOVE: u64 = 1_000;
/// Upstream files listed in one record; the rest are counted.
const INPUTS_MAX: usize = 5_000;
/// The command that makes a lost log again.
pub(crate) const RECOVER: &str = "recover";
/// Kinds of errors and warnings listed in one record; the rest are counted together.
const KINDS_MAX: usize = 200;
/// Different notes of one kind that are listed.
const NOTES_MAX: usize = 20;

/// A session that ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FinishedSession {
    pub record: RunRecord,
    /// The day of its row.
    pub day: Day,
    /// Its first and last event.
    pub events: (Seq, Seq),
    /// Whether its skips are listed in a file of their own.
    pub(crate) lists_skips: bool,
}

/// Folds events into sessions.
#[derive(Default)]
pub(crate) struct SessionFold {
    open: Option<OpenSession>,
}

struct OpenSession {
    run_id: String,
    command: String,
    version: String,
    config: String,
    host: Host,
    started: (Seq, Timestamp),
    stages: BTreeMap<StageName, StageSpan>,
    errors: BTreeMap<(ErrorClass, String, StageName), Group>,
    errors_beyond: u64,
    /// Kinds of attempts that failed and are followed by another.
    failures: BTreeMap<FailureKind, Group>,
    /// Requests whose last attempt failed, and how.
    failing: BTreeMap<Seq, FailureKind>,
    /// How many of them are left at the end.
    left_failing: u64,
    warnings: BTreeMap<WarningKey, Group>,
    inputs: BTreeMap<String, RunInput>,
    inputs_beyond: u64,
    touched: BTreeSet<PartitionKey>,
    versions_read: BTreeMap<String, BTreeSet<String>>,
    skips: u64,
    snapshot: Option<SnapshotPointer>,
    /// Whether work waits whose time had come.
    leaves_work: bool,
}

/// What a group of warnings has in common.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct WarningKey {
    kind: String,
    /// Which of several things of this kind it is about; empty where there is one.
    about: String,
    stage: StageName,
}

spellings! {
    /// A part of the work of a session.
    StageName {
        QueueRead "queue_read",
        InputResolution "input_resolution",
        ModelExecute "model_execute",
        Promote "promote",
        AckEmit "ack_emit",
        RunRecordEmit "run_record_emit",
    }
}

#[derive(Default)]
struct StageSpan {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    counters: BTreeMap<&'static str, u64>,
}

/// A kind of failed attempts. It is small, because there may be one for each open request.
type FailureKind = (ErrorClass, Option<ReasonCode>, Option<FailureCause>);

/// Things of one kind: the first stands for all.
struct Group {
    count: u64,
    /// How many of them say the same as the first.
    alike: u64,
    message: String,
    details: Option<ErrorDetails>,
    cause: Option<FailureCause>,
    request_id: Option<String>,
    at: Timestamp,
}

impl SessionFold {
    /// The first event of the open session.
    pub(crate) fn open_since(&self) -> Option<Seq> {
        self.open.as_ref().map(|session| session.started.0)
    }

    /// Takes the next event; gives the session that it ends.
    pub(crate) fn take(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &Event,
    ) -> Option<FinishedSession> {
        if let Event::SessionStarted { run_id, command, version, config, host } = event {
            self.open = Some(OpenSession {
                run_id: run_id.clone(),
                command: command.clone(),
                version: version.clone(),
                config: config.hex(),
                host: (**host).clone(),
                started: (seq, at),
                stages: BTreeMap::new(),
                errors: BTreeMap::new(),
                errors_beyond: 0,
                failures: BTreeMap::new(),
                failing: BTreeMap::new(),
                left_failing: 0,
                warnings: BTreeMap::new(),
                inputs: BTreeMap::new(),
                inputs_beyond: 0,
                touched: BTreeSet::new(),
                versions_read: BTreeMap::new(),
                skips: 0,
                snapshot: None,
                leaves_work: false,
            });
        }
        if let Event::SessionFinished { started, end, report, .. } = event {
            let session = self.open.take_if(|session| session.started.0 == *started)?;
            return Some(session.finish(seq, at, *end, report));
        }
        self.open.as_mut()?.take(at, event);
        None
    }
}

impl OpenSession {
    fn count(&mut self, stage: StageName, at: Timestamp, name: &'static str, by: u64) {
        let span = self.stages.entry(stage).or_default();
        span.first.get_or_insert(at);
        span.last = Some(at);
        *span.counters.entry(name).or_default() += by;
    }

    /// Counts what a recovery repeats: the sessions that did it count it as made, read and failed.
    fn repeats(&mut self, at: Timestamp, event: &Event) -> bool {
        let repeats = self.command == RECOVER && input_of(event).is_some();
        if repeats {
            self.count(StageName::ModelExecute, at, "recovered", 1);
            self.count(StageName::AckEmit, at, "acks", 1);
        }
        repeats
    }

    fn take(&mut self, at: Timestamp, event: &Event) {
        use StageName::{AckEmit, InputResolution, ModelExecute, Promote, QueueRead};
        let (mut warned, mut acked) = (Warnings::default(), true);
        if let Some(request) = event.request().filter(|_| goes_on(event)) {
            self.failing.remove(&request);
        }
        if self.repeats(at, event) {
            return;
        }
        match event {
            Event::LineQuarantined(line) => {
                self.count(QueueRead, at, "lines", 1);
                self.count(QueueRead, at, "quarantined", 1);
                let message = format!("line {} does not hold a request", line.line);
                self.warn(line.reason.as_str(), QueueRead, message, at);
            }
            Event::RequestAccepted(request) => {
                self.count(QueueRead, at, "lines", 1);
                self.count(QueueRead, at, "accepted", 1);
                warned = request.warnings;
            }
            Event::RequestParked { .. } => {
                self.count(QueueRead, at, "lines", 1);
                self.count(QueueRead, at, "parked", 1);
            }
            Event::KeyYielded { .. } => self.count(QueueRead, at, "parked", 1),
            Event::RequestRejected { status, reason, message, .. } => {
                self.count(QueueRead, at, "lines", 1);
                self.count(QueueRead, at, "rejected", 1);
                let code = reason.map_or(status.as_str(), |reason| reason.as_str());
                self.warn(code, QueueRead, message.clone(), at);
            }
            Event::DuplicateReceived { .. } => {
                self.count(QueueRead, at, "lines", 1);
                self.count(QueueRead, at, "duplicates", 1);
            }
            Event::ParkedAccepted { .. } => self.count(QueueRead, at, "accepted", 1),
            Event::RequestDuplicated { .. } => self.count(QueueRead, at, "duplicates", 1),
            Event::InputResolved { .. } => {
                self.count(InputResolution, at, "resolved", 1);
                acked = false;
            }
            Event::ModelResponded { .. } => {
                self.count(ModelExecute, at, "answers", 1);
                acked = false;
            }
            Event::SummaryProduced { summary, warnings, input, provenance, .. } => {
                self.count(ModelExecute, at, "produced", 1);
                let usage = provenance.as_ref().map_or_else(Usage::default, |made| made.usage);
                self.count(ModelExecute, at, "input_tokens", usage.input_tokens);
                self.count(ModelExecute, at, "output_tokens", usage.output_tokens);
                self.touched.insert(PartitionKey { stream: summary.stream, day: summary.day });
                self.skips += input.counts.skipped;
                warned = *warnings;
            }
            Event::RequestSkipped { warnings, .. } => {
                self.count(InputResolution, at, "skipped", 1);
                self.skips += 1;
                warned = *warnings;
            }
            Event::AttemptFailed { retry_at: Some(_), request, .. } => {
                self.count(ModelExecute, at, "failed_transient", 1);
                self.failed_for_now(at, *request, event);
            }
            Event::AttemptFailed { head, status, reason, cause, message, error, .. } => {
                let how = (*status, *reason, *cause);
                self.failed(at, &head.request_id, how, message, error.as_deref());
            }
            Event::ProviderPassedOver { failure, .. } => {
                self.passed_over(failure, at);
                acked = false;
            }
            Event::RequestCancelled { .. } => self.count(ModelExecute, at, "cancelled", 1),
            Event::PublishFailed(failed) => {
                self.count(Promote, at, "failed", 1);
                let fact = ErrorFacts {
                    class: ErrorClass::PublishFailure,
                    subtype: "NOT_PUBLISHED".to_owned(),
                    details: publication(Promotion::NotWritten),
                };
                self.error(fact, Promote, failed.message.clone(), (None, None), at);
                acked = false;
            }
            Event::WorkLeft(left) => {
                self.work_left(left, at);
                acked = false;
            }
            Event::DayOpened(opened) => {
                self.read(&opened.inputs);
                acked = false;
            }
            _ => acked = false,
        }
        if acked {
            self.count(AckEmit, at, "acks", 1);
        }
        for warning in warned.iter() {
            self.warn(warning.as_str(), QueueRead, format!("an ack warns of {warning}"), at);
        }
        if let Some(input) = input_of(event) {
            self.note(at, input);
        }
    }

    fn failed(
        &mut self,
        at: Timestamp,
        request_id: &str,
        (status, reason, cause): (AckStatus, Option<ReasonCode>, Option<FailureCause>),
        message: &str,
        error: Option<&ErrorFacts>,
    ) {
        let resolving = status == AckStatus::RejectedInvalidInput;
        let stage = if resolving { StageName::InputResolution } else { StageName::ModelExecute };
        self.count(stage, at, "failed", 1);
        let code = reason.map_or(status.as_str(), |reason| reason.as_str());
        let fact = error.cloned().unwrap_or_else(|| ErrorFacts {
            class: if resolving { ErrorClass::InputMissing } else { ErrorClass::ModelFailure },
            subtype: code.to_uppercase(),
            details: match resolving {
                true => ErrorDetails::Input {
                    input_name: "input".to_owned(),
                    expected_path: None,
                    expected_manifest_path: None,
                    source_id: None,
                },
                false => ErrorDetails::Unasked,
            },
        });
        if let ErrorDetails::Input { expected_path: Some(path), expected_manifest_path, .. } =
            &fact.details
            // Another path is no file of the buses. The error names it.
            && stays_inside(path)
        {
            let missing = RunInput {
                name: path.clone(),
                artifact_family: family_of(path).to_owned(),
                path: path.clone(),
                manifest_path: expected_manifest_path.clone(),
                data_hash: None,
                schema_version: None,
                required: true,
                resolution: Resolution::Missing,
            };
            self.input(path.clone(), missing);
        }
        self.error(fact, stage, message.to_owned(), (cause, Some(request_id.to_owned())), at);
    }

    /// An attempt failed, and another will follow.
    fn failed_for_now(&mut self, at: Timestamp, request: Seq, event: &Event) {
        let Event::AttemptFailed { head, reason, cause, message, error, .. } = event else {
            return;
        };
        if cause.is_some_and(FailureCause::puts_off) {
            // A limit was kept. Nothing went wrong.
            let kind = cause.map_or("put_off", |cause| cause.as_str());
            self.warn(kind, StageName::ModelExecute, message.clone(), at);
            return;
        }
        let class = error.as_ref().map_or(ErrorClass::ModelFailure, |error| error.class);
        let kind = (class, *reason, *cause);
        if !self.failures.contains_key(&kind) && self.failures.len() >= KINDS_MAX {
            return;
        }
        let group = self.failures.entry(kind).or_insert_with(|| Group {
            count: 0,
            alike: 0,
            message: message.clone(),
            details: error.as_ref().map(|error| error.details.clone()),
            cause: *cause,
            request_id: Some(head.request_id.clone()),
            at,
        });
        group.add(message);
        self.failing.insert(request, kind);
    }

    /// A provider failed, and a fallback answered. Each provider and cause is a warning of its own.
    fn passed_over(&mut self, failure: &PassedOver, at: Timestamp) {
        let PassedOver { provider, cause, message, answered_by, .. } = failure;
        let about = format!("{provider} {cause}");
        let message = format!(
            "the provider {provider} failed ({cause}) and {answered_by} answered: {message}"
        );
        self.warn_about(("provider_failed", &about), StageName::ModelExecute, message, at);
    }

    /// Work waits whose time had come. Each reason is a warning of its own.
    fn work_left(&mut self, left: &WorkLeft, at: Timestamp) {
        self.leaves_work = true;
        for WaitingWork { reason, requests, next } in &left.waits {
            let what = match requests {
                1 => "1 request waits".to_owned(),
                more => format!("{more} requests wait"),
            };
            let why = reason.as_str();
            let message = match (reason, next) {
                (WaitReason::Pause(cause), _) => format!(
                    "the service is paused ({cause}): {what} and {} bytes of the queue are unread; \
                     `summarizer status` says more",
                    left.unread_bytes
                ),
                (_, Some(next)) => format!("{what}: {why}; the next attempt: {next}"),
                (_, None) => format!("{what}: {why}"),
            };
            let about = match reason {
                WaitReason::Pause(_) => format!("paused {why}"),
                _ => why.to_owned(),
            };
            self.warn_about(("work_waits", &about), StageName::ModelExecute, message, at);
        }
    }

    /// What became of the attempts that failed: an error where a request still waits after its last one, and
    /// else a warning.
    fn count_failures(&mut self) {
        let mut left: BTreeMap<FailureKind, u64> = BTreeMap::new();
        for kind in std::mem::take(&mut self.failing).into_values() {
            *left.entry(kind).or_default() += 1;
        }
        for (kind, group) in std::mem::take(&mut self.failures) {
            let (class, reason, _) = kind;
            let stage = match class {
                ErrorClass::ModelFailure => StageName::ModelExecute,
                _ => StageName::InputResolution,
            };
            let Some(requests) = left.get(&kind).copied() else {
                let message = format!("{}; no request waits because of it any more", group.message);
                for _ in 0..group.count {
                    self.warn("attempt_failed", stage, message.clone(), group.at);
                }
                continue;
            };
            self.left_failing += requests;
            let waiting = match requests {
                1 => "1 request waits".to_owned(),
                more => format!("{more} requests wait"),
            };
            let subtype = reason.map_or("UNAVAILABLE", |reason| reason.as_str()).to_uppercase();
            let details = group.details.unwrap_or(ErrorDetails::Unasked);
            let fact = ErrorFacts { class, subtype, details };
            let message = format!("{}; {waiting} for the next attempt", group.message);
            self.error(fact, stage, message, (group.cause, group.request_id), group.at);
        }
    }

    /// What was read, and on which day it counts.
    fn note(&mut self, at: Timestamp, facts: &InputFacts) {
        if let (Some(stream), Some(day)) = (facts.stream, facts.day) {
            self.touched.insert(PartitionKey { stream, day });
        }
        self.read(&facts.inputs);
        for note in &facts.notes {
            self.warn_note(note, at);
        }
    }

    /// Upstream files that were read.
    fn read(&mut self, inputs: &[UpstreamInput]) {
        for input in inputs {
            let data_hash = input.data_sha256.map(|hash| hash.hex());
            if self.inputs.get(&input.path).is_some_and(|known| {
                known.data_hash == data_hash && known.resolution == Resolution::Present
            }) {
                continue;
            }
            let family = artifact_family(input.bus);
            if let Some(version) = &input.schema_version {
                self.versions_read.entry(family.to_owned()).or_default().insert(version.clone());
            }
            self.input(
                input.path.clone(),
                RunInput {
                    name: format!("{} {}", input.bus, input.partition),
                    artifact_family: family.to_owned(),
                    path: input.path.clone(),
                    manifest_path: input.manifest_path.clone(),
                    data_hash,
                    schema_version: input.schema_version.clone(),
                    required: true,
                    resolution: Resolution::Present,
                },
            );
        }
    }

    fn input(&mut self, path: String, input: RunInput) {
        if self.inputs.len() < INPUTS_MAX || self.inputs.contains_key(&path) {
            self.inputs.insert(path, input);
        } else {
            self.inputs_beyond += 1;
        }
    }

    /// Different notes of a kind are warnings of their own, until there are many.
    fn warn_note(&mut self, note: &InputNote, at: Timestamp) {
        let (kind, message) = (note.kind(), note.to_string());
        let known = self.warnings.keys().filter(|key| key.kind == kind && !key.about.is_empty());
        let is_listed = known.clone().any(|key| key.about == message);
        let about = match is_listed || known.count() < NOTES_MAX {
            true => message.clone(),
            false => String::new(),
        };
        self.warn_about((kind, &about), StageName::InputResolution, message, at);
    }

    fn warn(&mut self, kind: &str, stage: StageName, message: String, at: Timestamp) {
        self.warn_about((kind, ""), stage, message, at);
    }

    /// A warning of its own for each thing of a kind.
    fn warn_about(
        &mut self,
        (kind, about): (&str, &str),
        stage: StageName,
        message: String,
        at: Timestamp,
    ) {
        let key = WarningKey { kind: kind.to_owned(), about: about.to_owned(), stage };
        if !self.warnings.contains_key(&key) && self.warnings.len() >= KINDS_MAX {
            return;
        }
        let group = self.warnings.entry(key).or_insert_with(|| Group {
            count: 0,
            alike: 0,
            message: message.clone(),
            details: None,
            cause: None,
            request_id: None,
            at,
        });
        group.add(&message);
    }

    fn error(
        &mut self,
        fact: ErrorFacts,
        stage: StageName,
        message: String,
        (cause, request_id): (Option<FailureCause>, Option<String>),
        at: Timestamp,
    ) {
        let key = (fact.class, fact.subtype, stage);
        if !self.errors.contains_key(&key) && self.errors.len() >= KINDS_MAX {
            self.errors_beyond += 1;
            return;
        }
        let group = self.errors.entry(key).or_insert_with(|| Group {
            count: 0,
            alike: 0,
            message: message.clone(),
            details: Some(fact.details),
            cause,
            request_id,
            at,
        });
        group.add(&message);
    }

    fn counter(&self, stage: StageName, name: &str) -> u64 {
        self.stages.get(&stage).and_then(|span| span.counters.get(name)).copied().unwrap_or(0)
    }

    fn finish(
        mut self,
        last: Seq,
        at: Timestamp,
        end: SessionEnd,
        report: &SessionReport,
    ) -> FinishedSession {
        self.count_failures();
        self.ended(at, end, report.error.as_deref());
        self.snapshot.clone_from(&report.snapshot);
        let outputs = self.outputs(&report.outputs);
        let zone = self.host.timezone.as_ref().and_then(|zone| zone.parse().ok());
        let day = self.started.1.day_in(zone.unwrap_or(chrono_tz::UTC));
        let lists_skips = self.skips > SKIPS_LISTED_ABOVE;
        let promoted = outputs.iter().filter(|one| one.promotion_status == Promotion::Promoted);
        let promoted = promoted.count() as u64;
        if !outputs.is_empty() {
            self.count(StageName::Promote, at, "partitions", outputs.len() as u64);
            self.count(StageName::Promote, at, "promoted", promoted);
        }
        if end != SessionEnd::Crashed {
            self.count(StageName::RunRecordEmit, at, "records", 1);
        }
        let (errors, warnings) = (self.errors(), self.warnings());
        let record = RunRecord {
            run_record_version: RunRecord::VERSION.to_owned(),
            run_id: self.run_id.clone(),
            created_at: self.started.1.to_string(),
            completed_at: (end != SessionEnd::Crashed).then(|| at.to_string()),
            status: self.status(end),
            project: Project {
                project_id: "summarizer".to_owned(),
                project_name: "Summarizer".to_owned(),
            },
            entrypoint: format!("summarizer {}", self.command),
            stages: self.stages_of(&errors, &warnings, last, lists_skips),
            counters: self.counters(&errors, &warnings, promoted),
            schema_versions: self.versions(&outputs),
            inputs: listed(self.inputs.into_values()),
            outputs,
            warnings,
            errors,
            environment: Environment {
                hostname: self.host.hostname,
                os: text_of(self.host.os),
                arch: text_of(self.host.arch),
                config_fingerprint: self.config,
                timezone: zone.unwrap_or(chrono_tz::UTC).name().to_owned(),
            },
        };
        FinishedSession { record, day, events: (self.started.0, last), lists_skips }
    }

    /// A session without an end of its own has an error that says so.
    fn ended(&mut self, at: Timestamp, end: SessionEnd, error: Option<&str>) {
        let (class, subtype, details, message) = match end {
            SessionEnd::Clean => return,
            SessionEnd::Crashed => {
                let message = "the session wrote no end; the next session closed it".to_owned();
                (ErrorClass::PublishFailure, "RUN_CRASHED", publication(Promotion::Staged), message)
            }
            SessionEnd::Failed => {
                let message = error.unwrap_or("the session stopped on an error").to_owned();
                let details = ErrorDetails::Storage {
                    storage_location: "run".to_owned(),
                    operation: "run".to_owned(),
                };
                (ErrorClass::StorageUnavailable, "RUN_FAILED", details, message)
            }
        };
        let fact = ErrorFacts { class, subtype: subtype.to_owned(), details };
        self.error(fact, StageName::RunRecordEmit, message, (None, None), at);
    }

    /// What the session reports as promoted. For a killed session: what it committed and did not publish.
    fn outputs(&self, reported: &[Promoted]) -> Vec<RunOutput> {
        let reported = reported.iter().map(|one| (one.path.clone(), one.clone()));
        let committed = self.touched.iter().map(|key| Promoted {
            path: format!("{SUMMARIES_DIR}/{}", key.data_file()),
            manifest_path: format!("{SUMMARIES_DIR}/{}", key.manifest_file()),
            data_hash: None,
            schema_version: key.stream.item_version().to_owned(),
            promotion_status: Promotion::Staged,
        });
        let mut all: BTreeMap<String, Promoted> =
            committed.map(|one| (one.path.clone(), one)).collect();
        all.extend(reported);
        let output = |one: Promoted| RunOutput {
            name: one.path.rsplit('/').next().unwrap_or_default().to_owned(),
            artifact_family: "summary_bus".to_owned(),
            path: one.path,
            manifest_path: Some(one.manifest_path),
            data_hash: one.data_hash.map(|hash| hash.hex()),
            schema_version: Some(one.schema_version),
            promotion_status: one.promotion_status,
            required: true,
        };
        all.into_values().map(output).collect()
    }

    fn status(&self, end: SessionEnd) -> RunStatus {
        let produced = self.counter(StageName::ModelExecute, "produced")
            + self.counter(StageName::ModelExecute, "recovered");
        let skipped = self.counter(StageName::InputResolution, "skipped");
        let failed = self.counter(StageName::ModelExecute, "failed")
            + self.counter(StageName::InputResolution, "failed")
            + self.left_failing;
        let unpublished = self.counter(StageName::Promote, "failed") > 0;
        match (end, produced, failed) {
            (SessionEnd::Failed | SessionEnd::Crashed, ..) => RunStatus::Error,
            _ if unpublished => RunStatus::Error,
            (_, 0, 1..) if skipped == 0 => RunStatus::Error,
            (_, _, 1..) => RunStatus::PartialSuccess,
            // Not empty: there is work, and it was put off.
            _ if self.leaves_work => RunStatus::PartialSuccess,
            (_, 0, 0) => RunStatus::EmptySuccess,
            _ => RunStatus::Success,
        }
    }

    fn counters(&self, errors: &[RunError], warnings: &[RunWarning], written: u64) -> Counters {
        use StageName::{InputResolution, ModelExecute, QueueRead};
        let missing =
            self.inputs.values().filter(|one| one.resolution == Resolution::Missing).count() as u64;
        let seen = self.inputs.len() as u64;
        let left_out = self.counter(InputResolution, "skipped")
            + self.counter(InputResolution, "failed")
            + self.counter(ModelExecute, "failed")
            + self.counter(ModelExecute, "cancelled")
            + self.counter(QueueRead, "quarantined")
            + self.counter(QueueRead, "rejected")
            + self.counter(QueueRead, "duplicates");
        Counters {
            files_seen: seen,
            files_processed: seen - missing,
            files_skipped: missing,
            records_seen: self.counter(QueueRead, "lines"),
            records_processed: self.counter(ModelExecute, "produced"),
            records_skipped: left_out,
            artifacts_written: written,
            errors_count: errors.len() as u64,
            warnings_count: warnings.len() as u64,
        }
    }

    fn versions(&self, outputs: &[RunOutput]) -> SchemaVersions {
        let mut versions =
            SchemaVersions { read: self.versions_read.clone(), written: BTreeMap::new() };
        if self.counter(StageName::QueueRead, "lines") > 0 {
            let request = BTreeSet::from([crate::contract::request::SCHEMA.to_owned()]);
            versions.read.insert("summary_request".to_owned(), request);
        }
        for output in outputs {
            let written = versions.written.entry(output.artifact_family.clone()).or_default();
            written.extend(output.schema_version.clone());
        }
        versions
    }

    fn warnings(&self) -> Vec<RunWarning> {
        let groups = self.warnings.iter().enumerate();
        let mut warnings: Vec<RunWarning> = groups
            .map(|(index, (WarningKey { kind, stage, .. }, group))| RunWarning {
                warning_id: format!("warn_{}", index + 1),
                kind: kind.clone(),
                stage: stage.as_str().to_owned(),
                message: counted(group),
                recorded_at: group.at.to_string(),
            })
            .collect();
        if self.inputs_beyond > 0 {
            warnings.push(RunWarning {
                warning_id: format!("warn_{}", warnings.len() + 1),
                kind: "inputs_omitted".to_owned(),
                stage: StageName::InputResolution.as_str().to_owned(),
                message: format!("{} more reads of files that are not listed", self.inputs_beyond),
                recorded_at: self.started.1.to_string(),
            });
        }
        warnings
    }

    fn errors(&self) -> Vec<RunError> {
        let groups = self.errors.iter().enumerate();
        let mut errors: Vec<RunError> = groups
            .map(|(index, ((class, subtype, stage), group))| {
                let fatal = matches!(subtype.as_str(), "RUN_CRASHED" | "RUN_FAILED");
                let mut details =
                    group.details.as_ref().map_or_else(|| json!({}), ErrorDetails::to_json);
                for detail in details.as_object_mut().into_iter().flat_map(|all| all.values_mut()) {
                    if let Some(text) = detail.as_str() {
                        *detail = without_file_names(text).into();
                    }
                }
                details["occurrences"] = group.count.into();
                if let Some(cause) = group.cause {
                    details["cause"] = cause.as_str().into();
                }
                RunError {
                    error_id: format!("err_{}", index + 1),
                    class: *class,
                    subtype: Some(subtype.clone()),
                    stage: stage.as_str().to_owned(),
                    message: counted(group),
                    evidence: evidence_of(group.details.as_ref(), group.request_id.as_deref()),
                    details: Some(details),
                    remediation_hint: hint(*class, subtype).to_owned(),
                    severity: if fatal { Severity::Fatal } else { Severity::Error },
                    recorded_at: group.at.to_string(),
                }
            })
            .collect();
        if self.errors_beyond > 0
            && let Some(last) = errors.last_mut()
        {
            last.message.push_str(&format!(" (and {} of other kinds)", self.errors_beyond));
        }
        errors
    }

    fn stages_of(
        &self,
        errors: &[RunError],
        warnings: &[RunWarning],
        last: Seq,
        lists_skips: bool,
    ) -> Vec<Stage> {
        let empty = StageSpan::default();
        let stage = |name: StageName| {
            let span = self.stages.get(&name).unwrap_or(&empty);
            let here = name.as_str();
            let errors: Vec<String> = errors
                .iter()
                .filter(|one| one.stage == here)
                .map(|one| one.error_id.clone())
                .collect();
            let warnings = warnings.iter().filter(|one| one.stage == here);
            let status = match (errors.is_empty(), span.first) {
                (false, _) => StageStatus::Error,
                (true, None) => StageStatus::Skipped,
                (true, Some(_)) => StageStatus::Success,
            };
            let mut evidence = Vec::new();
            if name == StageName::RunRecordEmit {
                evidence.push(Evidence {
                    kind: "log".to_owned(),
                    path: None,
                    reference: Some(format!("events {} to {last}", self.started.0)),
                    note: Some(format!("summarizer {}", self.version)),
                });
                evidence.extend(self.snapshot.as_ref().map(|snapshot| Evidence {
                    kind: "artifact".to_owned(),
                    path: None,
                    reference: Some(snapshot.snapshot_id.clone()),
                    note: Some(format!(
                        "snapshot {} of {}, below run/snapshots of the home",
                        snapshot.sequence, snapshot.run_id
                    )),
                }));
            }
            if name == StageName::InputResolution && lists_skips {
                evidence.push(Evidence {
                    kind: "artifact".to_owned(),
                    path: Some(skip_report_path(&self.run_id)),
                    reference: None,
                    note: Some(format!("{} skips, one a line", self.skips)),
                });
            }
            Stage {
                stage: here.to_owned(),
                started_at: span.first.map(|at| at.to_string()),
                completed_at: span.last.map(|at| at.to_string()),
                status,
                counters: span
                    .counters
                    .iter()
                    .map(|(name, count)| ((*name).to_owned(), *count))
                    .collect(),
                warnings: warnings.map(|one| one.warning_id.clone()).collect(),
                errors,
                evidence,
            }
        };
        StageName::ALL.iter().copied().map(stage).collect()
    }
}

fn text_of(text: String) -> String {
    if text.is_empty() { "unknown".to_owned() } else { text }
}

/// Whether an event says that a request continues after a failed attempt, or has ended.
fn goes_on(event: &Event) -> bool {
    !event.is_beside()
}

/// What a record says about a publication that did not happen.
fn publication(promotion_status: Promotion) -> ErrorDetails {
    ErrorDetails::Publication {
        publish_target: SUMMARIES_DIR.to_owned(),
        staging_path: format!(".{SUMMARIES_DIR}.shadow"),
        promotion_status,
    }
}

/// What an ending says was read.
pub(crate) fn input_of(event: &Event) -> Option<&InputFacts> {
    match event {
        Event::SummaryProduced { input, .. }
        | Event::RequestSkipped { input, .. }
        | Event::AttemptFailed { retry_at: None, input, .. } => Some(input),
        _ => None,
    }
}

impl Group {
    fn add(&mut self, message: &str) {
        self.count += 1;
        self.alike += u64::from(message == self.message);
    }
}

/// The inputs of a record. Each file of the bus `other` is a text of a person, and a record has no mark that
/// says which of them are private, so they are counted.
fn listed(inputs: impl Iterator<Item = RunInput>) -> Vec<RunInput> {
    let (others, mut listed): (Vec<RunInput>, Vec<RunInput>) =
        inputs.partition(|input| input.artifact_family == artifact_family(Bus::Other));
    for resolution in [Resolution::Present, Resolution::Missing, Resolution::Substituted] {
        let of_these = || others.iter().filter(|input| input.resolution == resolution);
        let Some(first) = of_these().next() else { continue };
        let name = match of_these().count() {
            1 => "other: 1 file".to_owned(),
            files => format!("other: {files} files"),
        };
        let path = artifact_family(Bus::Other).to_owned();
        listed.push(RunInput { name, path, manifest_path: None, data_hash: None, ..first.clone() });
    }
    listed
}

fn counted(group: &Group) -> String {
    let (count, message) = (group.count, without_file_names(&group.message));
    match (count, count - group.alike) {
        (1, _) => message,
        (count, 0) => format!("{message} ({count} times)"),
        (_, others) => format!("{message} ({others} others of this kind)"),
    }
}

/// Whether a path names a file below the bus home.
fn stays_inside(path: &str) -> bool {
    use std::path::{Component, Path};
    Path::new(path)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

fn evidence_of(details: Option<&ErrorDetails>, request_id: Option<&str>) -> Vec<Evidence> {
    let plain = |kind: &str, path: &Option<String>| {
        let path = path.clone().filter(|path| !path.is_empty())?;
        let path = without_file_names(&path);
        Some(Evidence { kind: kind.to_owned(), path: Some(path), reference: None, note: None })
    };
    let files = match details {
        Some(ErrorDetails::Input { expected_path, expected_manifest_path, .. }) => {
            [plain("file", expected_path), plain("manifest", expected_manifest_path)]
        }
        Some(ErrorDetails::Integrity { manifest_path, .. }) => {
            [None, plain("manifest", manifest_path)]
        }
        _ => [None, None],
    };
    let mut evidence: Vec<Evidence> = files.into_iter().flatten().collect();
    evidence.extend(request_id.map(|id| Evidence {
        kind: "log".to_owned(),
        path: None,
        reference: Some(format!("request {id}")),
        note: Some("the first request it happened to".to_owned()),
    }));
    evidence
}

fn hint(class: ErrorClass, subtype: &str) -> &'static str {
    match (class, subtype) {
        (_, "RUN_CRASHED") => "nothing is lost: the next start published what was committed",
        (_, "RUN_FAILED") => "see the message, and start again: recovery is the normal start",
        (ErrorClass::InputMissing, _) => "publish the missing input, then append the request again",
        (ErrorClass::SchemaMismatch, _) => "correct the records upstream and publish the day again",
        (ErrorClass::IntegrityMismatch, _) => "publish data and manifest of that partition again",
        (ErrorClass::StorageUnavailable, _) => "see that the disk is there and has room",
        (ErrorClass::ModelFailure, _) => "`summarizer show` tells what the model said",
        (ErrorClass::PublishFailure, _) => "see the message; the next start publishes it again",
    }
}

/// The family a missing path belongs to.
fn family_of(path: &str) -> &'static str {
    match path.split('/').next() {
        Some("eventbus") => "event_bus",
        Some("sessions") => "sessions_bus",
        Some("chunks") => "chunk_bus",
        _ => "other",
    }
}

fn artifact_family(bus: Bus) -> &'static str {
    match bus {
        Bus::EventBus => "event_bus",
        Bus::SessionBus => "sessions_bus",
        Bus::ChunkBus => "chunk_bus",
        Bus::Other => "other",
    }
}

/// Where the skips of a run are listed, relative to the bus home.
/// The folder of skip reports, relative to the bus home.
pub(crate) const SKIP_REPORTS_DIR: &str = "artifacts/skip_reports";

pub(crate) fn skip_report_path(run_id: &str) -> String {
    format!("{SKIP_REPORTS_DIR}/{run_id}.skips.jsonl")
}

/// A line of a skip report, for events that skipped something.
pub(crate) fn skip_line(
    seq: Seq,
    at: Timestamp,
    event: &Event,
) -> serde_json::Result<Option<String>> {
    let line = match event {
        Event::RequestSkipped { head, reason, input, .. } => json!({
            "schema_version": "skip_report.v1", "seq": seq.0, "at": at.to_string(),
            "request_id": head.request_id, "summary_id": null, "reason": bare(*reason),
            "stream": input.stream, "day": input.day, "sources_skipped": input.counts.skipped,
        }),
        Event::SummaryProduced { head, summary, input, .. } if input.counts.skipped > 0 => json!({
            "schema_version": "skip_report.v1", "seq": seq.0, "at": at.to_string(),
            "request_id": head.request_id, "summary_id": summary.summary_id,
            "reason": "sources_not_used", "stream": summary.stream,
            "day": summary.day, "sources_skipped": input.counts.skipped,
        }),
        _ => return Ok(None),
    };
    Ok(Some(crate::contract::json::line(&line)))
}

/// A reason as manifests spell it.
fn bare(reason: ReasonCode) -> &'static str {
    let reason = reason.as_str();
    reason.strip_prefix("skipped_").unwrap_or(reason)
}
