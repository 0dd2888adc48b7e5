//! The run record of one build: what it read, what it wrote, and what failed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::contract::digest_bus::{
    BAG_VERSION, INDEX_DIR, INDEX_VERSIONS, MEMO_INDEX_VERSION, MEMO_META_VERSION,
    RUN_BAGS_LISTED_MAX, TRACE_FILE, TRACE_VERSION,
};
use crate::contract::time::{Day, Timestamp};
use crate::contract::vocabulary::ErrorClass;
use crate::export::run_record::{
    Counters, Environment, Evidence, Project, RunError, RunOutput, RunRecord, RunStatus,
    SchemaVersions, Severity, Stage, StageStatus,
};
use crate::export::summary_bus::SUMMARIES_DIR;
use crate::facts::session::Promotion;

pub(crate) const STAGES: [&str; 6] =
    ["input_resolution", "selection", "staging", "validation", "promotion", "index_update"];

const INDEX_FAMILY: &str = "digest_index";

/// Why a build did not publish.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BuildFailure {
    pub class: ErrorClass,
    pub subtype: &'static str,
    pub stage: &'static str,
    pub message: String,
    /// Facts that help to reproduce the failure.
    pub details: Value,
    pub hint: &'static str,
}

/// What a running build has counted so far.
#[derive(Debug, Clone)]
pub(crate) struct BuildAccount {
    pub run_id: String,
    pub trigger: String,
    pub started: Timestamp,
    pub environment: Environment,
    /// Counters by stage and name.
    pub counted: BTreeMap<&'static str, BTreeMap<String, u64>>,
    /// Start of each stage that the build reached.
    pub reached: Vec<(&'static str, Timestamp)>,
    /// New bags: folder and hash of the trace, which covers every file of the folder.
    pub bags: Vec<(String, String)>,
    /// True once bags and indexes are in place.
    pub promoted: bool,
    /// Hashes of the published indexes, by name.
    pub indexes: BTreeMap<&'static str, String>,
}

impl BuildAccount {
    pub(super) fn new(
        run_id: &str,
        trigger: &str,
        started: Timestamp,
        environment: Environment,
    ) -> BuildAccount {
        BuildAccount {
            run_id: run_id.to_owned(),
            trigger: trigger.to_owned(),
            started,
            environment,
            counted: BTreeMap::new(),
            reached: Vec::new(),
            bags: Vec::new(),
            promoted: false,
            indexes: BTreeMap::new(),
        }
    }

    pub(super) fn reach(&mut self, stage: &'static str, now: Timestamp) {
        if !self.reached.iter().any(|(known, _)| *known == stage) {
            self.reached.push((stage, now));
        }
    }

    pub(super) fn count(&mut self, stage: &'static str, what: &str, by: u64) {
        *self.counted.entry(stage).or_default().entry(what.to_owned()).or_default() += by;
    }

    fn counted(&self, stage: &str, what: &str) -> u64 {
        self.counted.get(stage).and_then(|counts| counts.get(what)).copied().unwrap_or(0)
    }

    /// The day of a record's row and the row itself, which names the indexes and not every bag.
    pub(super) fn row(&self, record: &RunRecord) -> serde_json::Result<(Day, String)> {
        let zone = self.environment.timezone.parse().unwrap_or(chrono_tz::UTC);
        let mut short = record.clone();
        short.outputs.retain(|output| output.artifact_family == INDEX_FAMILY);
        Ok((self.started.day_in(zone), short.to_row(record)?))
    }

    /// The record of a build. `ended` is absent for a build whose process died.
    pub(super) fn record(
        &self,
        ended: Option<Timestamp>,
        failing: Option<&BuildFailure>,
    ) -> RunRecord {
        let status = match (failing, self.bags.is_empty() && !self.promoted) {
            (Some(_), _) => RunStatus::Error,
            (None, true) => RunStatus::EmptySuccess,
            (None, false) => RunStatus::Success,
        };
        let at = ended.unwrap_or(self.started).to_string();
        let errors: Vec<RunError> = failing.iter().map(|failing| error(failing, &at)).collect();
        let outputs = self.outputs();
        let (read, written) = versions();
        let seen = self.counted("selection", "candidates");
        let processed = self.counted("selection", "selected");
        RunRecord {
            run_record_version: RunRecord::VERSION.to_owned(),
            run_id: self.run_id.clone(),
            created_at: self.started.to_string(),
            completed_at: ended.map(|at| at.to_string()),
            status,
            project: Project {
                project_id: "summarizer".to_owned(),
                project_name: "Summarizer".to_owned(),
            },
            entrypoint: self.trigger.clone(),
            stages: self.stages(ended, failing),
            inputs: Vec::new(),
            schema_versions: SchemaVersions { read, written },
            counters: Counters {
                files_seen: self.counted("input_resolution", "manifests"),
                files_processed: self.counted("input_resolution", "manifests"),
                records_seen: seen,
                records_processed: processed.min(seen),
                records_skipped: seen.saturating_sub(processed),
                artifacts_written: self.counted("staging", "files"),
                errors_count: errors.len() as u64,
                ..Counters::default()
            },
            outputs,
            warnings: Vec::new(),
            errors,
            environment: self.environment.clone(),
        }
    }

    fn stages(&self, ended: Option<Timestamp>, failing: Option<&BuildFailure>) -> Vec<Stage> {
        let stage = |name: &'static str| {
            let place = self.reached.iter().position(|(reached, _)| *reached == name);
            let failed = failing.is_some_and(|failing| failing.stage == name);
            let after = place.and_then(|place| self.reached.get(place + 1)).map(|(_, at)| *at);
            let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
            Stage {
                stage: name.to_owned(),
                started_at: time(place.map(|place| self.reached[place].1)),
                completed_at: time(place.and(after.or(ended))),
                status: match (place, failed) {
                    (_, true) => StageStatus::Error,
                    (Some(_), false) => StageStatus::Success,
                    (None, false) => StageStatus::Skipped,
                },
                counters: self.counted.get(name).cloned().unwrap_or_default(),
                warnings: Vec::new(),
                errors: if failed { vec!["err_1".to_owned()] } else { Vec::new() },
                evidence: Vec::new(),
            }
        };
        STAGES.into_iter().map(stage).collect()
    }

    fn outputs(&self) -> Vec<RunOutput> {
        if self.bags.is_empty() && !self.promoted {
            return Vec::new();
        }
        let promotion_status = if self.promoted { Promotion::Promoted } else { Promotion::Staged };
        let bags = self.bags.iter().take(RUN_BAGS_LISTED_MAX).map(|(path, hash)| RunOutput {
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            artifact_family: "digest_bus".to_owned(),
            path: path.clone(),
            manifest_path: Some(format!("{path}/{TRACE_FILE}")),
            data_hash: Some(hash.clone()),
            schema_version: Some(BAG_VERSION.to_owned()),
            promotion_status,
            required: true,
        });
        let indexes = INDEX_VERSIONS.iter().map(|(name, version)| RunOutput {
            name: (*name).to_owned(),
            artifact_family: INDEX_FAMILY.to_owned(),
            path: format!("{INDEX_DIR}/{name}"),
            manifest_path: None,
            data_hash: self.indexes.get(name).cloned(),
            schema_version: Some((*version).to_owned()),
            promotion_status: if self.promoted {
                Promotion::Promoted
            } else {
                Promotion::NotWritten
            },
            required: true,
        });
        bags.chain(indexes).collect()
    }
}

fn error(failing: &BuildFailure, at: &str) -> RunError {
    RunError {
        error_id: "err_1".to_owned(),
        class: failing.class,
        subtype: Some(failing.subtype.to_owned()),
        stage: failing.stage.to_owned(),
        message: failing.message.clone(),
        details: Some(failing.details.clone()),
        evidence: failing.details["staged"].as_str().map(evidence).into_iter().collect(),
        remediation_hint: failing.hint.to_owned(),
        severity: Severity::Fatal,
        recorded_at: at.to_owned(),
    }
}

fn evidence(staged: &str) -> Evidence {
    Evidence {
        kind: "file".to_owned(),
        path: Some(staged.to_owned()),
        reference: None,
        note: Some("what was staged".to_owned()),
    }
}

type Versions = BTreeMap<String, BTreeSet<String>>;

fn versions() -> (Versions, Versions) {
    let set = |versions: &[&str]| versions.iter().map(|version| (*version).to_owned()).collect();
    let streams = crate::contract::vocabulary::Stream::ALL;
    let items = streams.iter().map(|stream| stream.item_version().to_owned()).collect();
    let read = BTreeMap::from([(SUMMARIES_DIR.to_owned(), items)]);
    let indexes: Vec<&str> = INDEX_VERSIONS.iter().map(|(_, version)| *version).collect();
    let bag = [BAG_VERSION, TRACE_VERSION, MEMO_INDEX_VERSION, MEMO_META_VERSION];
    let written = BTreeMap::from([
        ("digest_bus".to_owned(), set(&bag)),
        (INDEX_FAMILY.to_owned(), set(&indexes)),
    ]);
    (read, written)
}
