//! Run records as a function of committed events.
//!
//! Contract: what is told about a run follows from the events between its `RunStarted` and its
//! `RunFinished`, which carries what only the run itself could know: what it promoted. A run that
//! was killed is finished by the next one and its record says so. Memory is bounded by the kinds of
//! things that happened, not by how many.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::outcome_facts::{ErrorFact, OutcomeFacts};
use super::run_record::{
    Counters, Environment, Evidence, Project, Promotion, Resolution, RunError, RunInput, RunOutput,
    RunRecord, RunStatus, RunWarning, SchemaVersions, Severity, Stage, StageStatus,
};
use super::summary_bus::{PartitionKey, SUMMARIES_DIR};
use crate::contract::ids::Seq;
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::{AckStatus, Bus, ErrorClass, ReasonCode, Warnings};
use crate::state::event::{Event, RunEnd};

/// The kind of the note that says why a publication did not happen.
pub const PUBLISH_FAILED: &str = "publish_failed";
/// Skips in one run above which they are listed in a file of their own.
pub const SKIPS_LISTED_ABOVE: u64 = 1_000;
/// Upstream files listed in one record; the rest are counted.
const INPUTS_MAX: usize = 5_000;
/// Kinds of errors and warnings listed in one record; the rest are counted together.
const KINDS_MAX: usize = 200;

/// What a run promoted, as it says itself when it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promoted {
    /// The data file, relative to the bus home.
    pub path: String,
    /// Its manifest, relative to the bus home.
    pub manifest_path: String,
    /// Hash of its data; none when it was not written.
    pub data_hash: Option<String>,
    /// Version of its records.
    pub schema_version: String,
    /// How far it came.
    pub promotion_status: Promotion,
}

/// What `RunFinished` reports beside its counts.
#[derive(Debug, Default, Deserialize)]
struct Report {
    #[serde(default)]
    outputs: Vec<Promoted>,
    error: Option<String>,
    snapshot: Option<Snapshot>,
}

/// The newest snapshot of the service's own run.
#[derive(Debug, Deserialize)]
struct Snapshot {
    run_id: String,
    sequence: u64,
    snapshot_id: String,
}

/// A run that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedRun {
    /// Its record.
    pub record: RunRecord,
    /// The day of its row.
    pub day: Day,
    /// Its first and last event.
    pub events: (Seq, Seq),
    /// Whether its skips are listed in a file of their own.
    pub lists_skips: bool,
}

/// Folds events into runs.
#[derive(Default)]
pub struct SessionFold {
    open: Option<Run>,
}

struct Run {
    run_id: String,
    command: String,
    version: String,
    config: String,
    environment: Value,
    started: (Seq, Timestamp),
    stages: BTreeMap<StageName, Span>,
    errors: BTreeMap<(ErrorClass, String, StageName), Group>,
    errors_beyond: u64,
    warnings: BTreeMap<(String, StageName), Group>,
    inputs: BTreeMap<String, RunInput>,
    inputs_beyond: u64,
    touched: BTreeSet<PartitionKey>,
    read: BTreeMap<String, BTreeSet<String>>,
    skips: u64,
    snapshot: Option<Snapshot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum StageName {
    QueueRead,
    InputResolution,
    ModelExecute,
    Promote,
    AckEmit,
    RunRecordEmit,
}

impl StageName {
    const ALL: [StageName; 6] = [
        StageName::QueueRead,
        StageName::InputResolution,
        StageName::ModelExecute,
        StageName::Promote,
        StageName::AckEmit,
        StageName::RunRecordEmit,
    ];

    fn as_str(self) -> &'static str {
        match self {
            StageName::QueueRead => "queue_read",
            StageName::InputResolution => "input_resolution",
            StageName::ModelExecute => "model_execute",
            StageName::Promote => "promote",
            StageName::AckEmit => "ack_emit",
            StageName::RunRecordEmit => "run_record_emit",
        }
    }
}

#[derive(Default)]
struct Span {
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    counters: BTreeMap<&'static str, u64>,
}

/// Things of one kind: the first stands for all.
struct Group {
    count: u64,
    message: String,
    details: Value,
    request_id: Option<String>,
    at: Timestamp,
}

impl SessionFold {
    /// The first event of the run that is open.
    pub fn open_since(&self) -> Option<Seq> {
        self.open.as_ref().map(|run| run.started.0)
    }

    /// Takes the next event; gives the run that it ends.
    pub fn take(
        &mut self,
        seq: Seq,
        at: Timestamp,
        event: &Event,
        facts: &OutcomeFacts,
    ) -> Option<FinishedRun> {
        if let Event::RunStarted { run_id, command, version, config, environment } = event {
            self.open = Some(Run {
                run_id: run_id.clone(),
                command: command.clone(),
                version: version.clone(),
                config: config.hex(),
                environment: serde_json::from_str(environment).unwrap_or_default(),
                started: (seq, at),
                stages: BTreeMap::new(),
                errors: BTreeMap::new(),
                errors_beyond: 0,
                warnings: BTreeMap::new(),
                inputs: BTreeMap::new(),
                inputs_beyond: 0,
                touched: BTreeSet::new(),
                read: BTreeMap::new(),
                skips: 0,
                snapshot: None,
            });
        }
        if let Event::RunFinished { started, end, report, .. } = event {
            let run = self.open.take_if(|run| run.started.0 == *started)?;
            return Some(run.finish(seq, at, *end, report));
        }
        self.open.as_mut()?.take(at, event, facts);
        None
    }
}

impl Run {
    fn count(&mut self, stage: StageName, at: Timestamp, name: &'static str, by: u64) {
        let span = self.stages.entry(stage).or_default();
        span.first.get_or_insert(at);
        span.last = Some(at);
        *span.counters.entry(name).or_default() += by;
    }

    fn take(&mut self, at: Timestamp, event: &Event, facts: &OutcomeFacts) {
        use StageName::{AckEmit, InputResolution, ModelExecute, Promote, QueueRead};
        let (mut warned, mut acked) = (Warnings::default(), true);
        match event {
            Event::LineQuarantined(line) => {
                self.count(QueueRead, at, "lines", 1);
                self.count(QueueRead, at, "quarantined", 1);
                let message = format!("line {} is no request", line.line);
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
                acked = false;
            }
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
            Event::SummaryProduced { summary, warnings, .. } => {
                self.count(ModelExecute, at, "produced", 1);
                for (name, tokens) in
                    [("input_tokens", "input_tokens"), ("output_tokens", "output_tokens")]
                {
                    let count = facts.provenance.usage.get(tokens).copied().unwrap_or(0);
                    self.count(ModelExecute, at, name, count);
                }
                self.touched.insert(PartitionKey { stream: summary.stream, day: summary.day });
                self.skips += facts.counts.skipped;
                warned = *warnings;
            }
            Event::RequestSkipped { warnings, .. } => {
                self.count(InputResolution, at, "skipped", 1);
                self.skips += 1;
                warned = *warnings;
            }
            Event::AttemptFailed { retry_at: Some(_), .. } => {
                self.count(ModelExecute, at, "failed_transient", 1);
            }
            Event::AttemptFailed { head, status, reason, message, .. } => {
                self.failed(at, &head.request_id, (*status, *reason), message, facts);
            }
            Event::RequestCancelled { .. } => self.count(ModelExecute, at, "cancelled", 1),
            Event::Noted { kind, facts } if kind == PUBLISH_FAILED => {
                self.count(Promote, at, "failed", 1);
                let noted: Value = serde_json::from_str(facts).unwrap_or_default();
                let message = noted["message"].as_str().unwrap_or_default().to_owned();
                let fact = ErrorFact {
                    class: ErrorClass::PublishFailure,
                    subtype: "NOT_PUBLISHED".to_owned(),
                    details: noted["details"].clone(),
                };
                self.error(fact, Promote, message, None, at);
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
        self.note(at, facts);
    }

    fn failed(
        &mut self,
        at: Timestamp,
        request_id: &str,
        (status, reason): (AckStatus, Option<ReasonCode>),
        message: &str,
        facts: &OutcomeFacts,
    ) {
        let resolving = status == AckStatus::RejectedInvalidInput;
        let stage = if resolving { StageName::InputResolution } else { StageName::ModelExecute };
        self.count(stage, at, "failed", 1);
        let code = reason.map_or(status.as_str(), |reason| reason.as_str());
        let fact = facts.error.clone().unwrap_or_else(|| ErrorFact {
            class: if resolving { ErrorClass::InputMissing } else { ErrorClass::ModelFailure },
            subtype: code.to_uppercase(),
            details: match resolving {
                true => json!({"input_name": "input", "expected_path": null,
                    "expected_manifest_path": null, "resolution": "missing"}),
                false => json!({"selection_manifest_refs": [], "retryable": false}),
            },
        });
        if fact.class == ErrorClass::InputMissing
            && let Some(path) = fact.details["expected_path"].as_str()
        {
            let path = path.to_owned();
            let manifest = fact.details["expected_manifest_path"].as_str().map(str::to_owned);
            self.input(
                path.clone(),
                RunInput {
                    name: path.clone(),
                    artifact_family: family_of(&path).to_owned(),
                    path,
                    manifest_path: manifest,
                    data_hash: None,
                    schema_version: None,
                    required: true,
                    resolution: Resolution::Missing,
                },
            );
        }
        self.error(fact, stage, message.to_owned(), Some(request_id.to_owned()), at);
    }

    /// What was read, and on which day it counts.
    fn note(&mut self, at: Timestamp, facts: &OutcomeFacts) {
        if let (Some(stream), Some(Ok(day))) = (facts.stream, facts.day.as_ref().map(|d| d.parse()))
        {
            self.touched.insert(PartitionKey { stream, day });
        }
        for input in &facts.inputs {
            if self.inputs.get(&input.path).is_some_and(|known| {
                known.data_hash == input.data_sha256 && known.resolution == Resolution::Present
            }) {
                continue;
            }
            let family = artifact_family(input.bus);
            if let Some(version) = &input.schema_version {
                self.read.entry(family.to_owned()).or_default().insert(version.clone());
            }
            self.input(
                input.path.clone(),
                RunInput {
                    name: format!("{} {}", input.bus, input.partition),
                    artifact_family: family.to_owned(),
                    path: input.path.clone(),
                    manifest_path: input.manifest_path.clone(),
                    data_hash: input.data_sha256.clone(),
                    schema_version: input.schema_version.clone(),
                    required: true,
                    resolution: Resolution::Present,
                },
            );
        }
        for note in &facts.notes {
            let kind = note.split(':').next().unwrap_or_default().to_owned();
            self.warn(&kind, StageName::InputResolution, note.clone(), at);
        }
    }

    fn input(&mut self, path: String, input: RunInput) {
        if self.inputs.len() < INPUTS_MAX || self.inputs.contains_key(&path) {
            self.inputs.insert(path, input);
        } else {
            self.inputs_beyond += 1;
        }
    }

    fn warn(&mut self, kind: &str, stage: StageName, message: String, at: Timestamp) {
        let known = self.warnings.contains_key(&(kind.to_owned(), stage));
        if !known && self.warnings.len() >= KINDS_MAX {
            return;
        }
        let group = self.warnings.entry((kind.to_owned(), stage)).or_insert(Group {
            count: 0,
            message,
            details: Value::Null,
            request_id: None,
            at,
        });
        group.count += 1;
    }

    fn error(
        &mut self,
        fact: ErrorFact,
        stage: StageName,
        message: String,
        request_id: Option<String>,
        at: Timestamp,
    ) {
        let key = (fact.class, fact.subtype, stage);
        if !self.errors.contains_key(&key) && self.errors.len() >= KINDS_MAX {
            self.errors_beyond += 1;
            return;
        }
        let group = self.errors.entry(key).or_insert(Group {
            count: 0,
            message,
            details: fact.details,
            request_id,
            at,
        });
        group.count += 1;
    }

    fn counter(&self, stage: StageName, name: &str) -> u64 {
        self.stages.get(&stage).and_then(|span| span.counters.get(name)).copied().unwrap_or(0)
    }

    fn finish(mut self, last: Seq, at: Timestamp, end: RunEnd, report: &str) -> FinishedRun {
        let report: Report = serde_json::from_str(report).unwrap_or_default();
        self.ended(at, end, report.error.as_deref());
        self.snapshot = report.snapshot;
        let outputs = self.outputs(report.outputs);
        let zone = self.environment["timezone"].as_str().and_then(|zone| zone.parse().ok());
        let day = self.started.1.day_in(zone.unwrap_or(chrono_tz::UTC));
        let lists_skips = self.skips > SKIPS_LISTED_ABOVE;
        let promoted = outputs.iter().filter(|one| one.promotion_status == Promotion::Promoted);
        let promoted = promoted.count() as u64;
        if !outputs.is_empty() {
            self.count(StageName::Promote, at, "partitions", outputs.len() as u64);
            self.count(StageName::Promote, at, "promoted", promoted);
        }
        if end != RunEnd::Crashed {
            self.count(StageName::RunRecordEmit, at, "records", 1);
        }
        let (errors, warnings) = (self.errors(), self.warnings());
        let record = RunRecord {
            run_record_version: RunRecord::VERSION.to_owned(),
            run_id: self.run_id.clone(),
            created_at: self.started.1.to_string(),
            completed_at: (end != RunEnd::Crashed).then(|| at.to_string()),
            status: self.status(end),
            project: Project {
                project_id: "summarizer".to_owned(),
                project_name: "Summarizer".to_owned(),
            },
            entrypoint: format!("summarizer {}", self.command),
            stages: self.stages_of(&errors, &warnings, last, lists_skips),
            counters: self.counters(&errors, &warnings, promoted),
            schema_versions: self.versions(&outputs),
            inputs: self.inputs.into_values().collect(),
            outputs,
            warnings,
            errors,
            environment: Environment {
                hostname: self.environment["hostname"].as_str().map(str::to_owned),
                os: text_of(&self.environment["os"]),
                arch: text_of(&self.environment["arch"]),
                config_fingerprint: self.config,
                timezone: zone.unwrap_or(chrono_tz::UTC).name().to_owned(),
            },
        };
        FinishedRun { record, day, events: (self.started.0, last), lists_skips }
    }

    /// A run that did not end by itself has an error that says so.
    fn ended(&mut self, at: Timestamp, end: RunEnd, error: Option<&str>) {
        let target = json!({
            "publish_target": SUMMARIES_DIR, "staging_path": format!(".{SUMMARIES_DIR}.shadow"),
            "intended_promoted_path": SUMMARIES_DIR, "promotion_status": "staged",
        });
        let (class, subtype, details, message) = match end {
            RunEnd::Clean => return,
            RunEnd::Crashed => {
                let message = "the run ended without a word; the next one noticed".to_owned();
                (ErrorClass::PublishFailure, "RUN_CRASHED", target, message)
            }
            RunEnd::Failed => {
                let message = error.unwrap_or("the run stopped on an error").to_owned();
                let details = json!({
                    "storage_kind": "filesystem", "storage_location": "run",
                    "operation": "run", "retryable": true,
                });
                (ErrorClass::StorageUnavailable, "RUN_FAILED", details, message)
            }
        };
        let fact = ErrorFact { class, subtype: subtype.to_owned(), details };
        self.error(fact, StageName::RunRecordEmit, message, None, at);
    }

    /// What the run says it promoted; of a killed one, what it had committed and not shown.
    fn outputs(&self, reported: Vec<Promoted>) -> Vec<RunOutput> {
        let reported: BTreeMap<String, Promoted> =
            reported.into_iter().map(|one| (one.path.clone(), one)).collect();
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
            data_hash: one.data_hash,
            schema_version: Some(one.schema_version),
            promotion_status: one.promotion_status,
            required: true,
        };
        all.into_values().map(output).collect()
    }

    fn status(&self, end: RunEnd) -> RunStatus {
        let produced = self.counter(StageName::ModelExecute, "produced");
        let skipped = self.counter(StageName::InputResolution, "skipped");
        let failed = self.counter(StageName::ModelExecute, "failed")
            + self.counter(StageName::InputResolution, "failed");
        let unpublished = self.counter(StageName::Promote, "failed") > 0;
        match (end, produced, failed) {
            (RunEnd::Failed | RunEnd::Crashed, ..) => RunStatus::Error,
            _ if unpublished => RunStatus::Error,
            (_, 0, 1..) if skipped == 0 => RunStatus::Error,
            (_, _, 1..) => RunStatus::PartialSuccess,
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
        let mut versions = SchemaVersions { read: self.read.clone(), written: BTreeMap::new() };
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
            .map(|(index, ((kind, stage), group))| RunWarning {
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
                let details = match &group.details {
                    Value::Object(_) => group.details.clone(),
                    _ => json!({}),
                };
                let mut details = details;
                details["occurrences"] = group.count.into();
                RunError {
                    error_id: format!("err_{}", index + 1),
                    class: *class,
                    subtype: Some(subtype.clone()),
                    stage: stage.as_str().to_owned(),
                    message: counted(group),
                    evidence: evidence_of(&details, group.request_id.as_deref()),
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
        let empty = Span::default();
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
        StageName::ALL.into_iter().map(stage).collect()
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or("unknown").to_owned()
}

fn counted(group: &Group) -> String {
    match group.count {
        1 => group.message.clone(),
        count => format!("{} ({count} times)", group.message),
    }
}

fn evidence_of(details: &Value, request_id: Option<&str>) -> Vec<Evidence> {
    let plain = |kind: &str, path: &Value| {
        let path = path.as_str().filter(|path| !path.is_empty())?.to_owned();
        Some(Evidence { kind: kind.to_owned(), path: Some(path), reference: None, note: None })
    };
    let files = [
        plain("file", &details["expected_path"]),
        plain("manifest", &details["expected_manifest_path"]),
        plain("manifest", &details["manifest_path"]),
    ];
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
pub fn skip_report_path(run_id: &str) -> String {
    format!("artifacts/skip_reports/{run_id}.skips.jsonl")
}

/// A line of a skip report, for events that skipped something.
pub fn skip_line(
    seq: Seq,
    at: Timestamp,
    event: &Event,
    facts: &OutcomeFacts,
) -> serde_json::Result<Option<String>> {
    let line = match event {
        Event::RequestSkipped { head, reason, .. } => json!({
            "schema_version": "skip_report.v1", "seq": seq.0, "at": at.to_string(),
            "request_id": head.request_id, "summary_id": null, "reason": bare(*reason),
            "stream": facts.stream, "day": facts.day, "sources_skipped": facts.counts.skipped,
        }),
        Event::SummaryProduced { head, summary, .. } if facts.counts.skipped > 0 => json!({
            "schema_version": "skip_report.v1", "seq": seq.0, "at": at.to_string(),
            "request_id": head.request_id, "summary_id": summary.summary_id,
            "reason": "sources_without_text", "stream": summary.stream,
            "day": summary.day.to_string(), "sources_skipped": facts.counts.skipped,
        }),
        _ => return Ok(None),
    };
    crate::contract::json::to_jcs(&line).map(Some)
}

/// A reason as manifests spell it.
fn bare(reason: ReasonCode) -> &'static str {
    let reason = reason.as_str();
    reason.strip_prefix("skipped_").unwrap_or(reason)
}
