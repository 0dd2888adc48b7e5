//! Run records: one file per run, and one line per run in the day's run-records bus.
//!
//! Contract: a run that failed or was killed has a record too. The file is what happened in full;
//! the line is what dashboards and aggregators read. Nothing secret is ever in either.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::contract::hash::sha256;
use crate::contract::json::{to_file, to_line};
use crate::contract::time::Day;
use crate::contract::vocabulary::ErrorClass;
use crate::facts::session::Promotion;

/// The folder of run record files, relative to the bus home.
pub(crate) const RUN_RECORDS_DIR: &str = "artifacts/run_records";

/// The file of the record of a run, relative to the bus home.
pub(crate) fn record_path(run_id: &str) -> String {
    format!("{RUN_RECORDS_DIR}/{run_id}.run_record.json")
}

/// The folder of the run-records bus, relative to the bus home.
pub(crate) const RUN_ROWS_DIR: &str = "run_records/daily";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RunStatus {
    /// Required outputs are promoted and valid.
    Success,
    /// Nothing to do; empty outputs are valid.
    EmptySuccess,
    /// Only optional outputs failed.
    PartialSuccess,
    /// Something required is missing or wrong.
    Error,
}

/// How a stage ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StageStatus {
    /// It did its work.
    Success,
    Skipped,
    Error,
}

/// Whether an input was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resolution {
    Present,
    Missing,
    /// Something else was used.
    Substituted,
}

/// Whose run it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Project {
    pub project_id: String,
    pub project_name: String,
}

/// One stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stage {
    /// Such as `input_resolution`.
    pub stage: String,
    pub started_at: Option<String>,
    pub completed_at: Option<String>,
    pub status: StageStatus,
    pub counters: BTreeMap<String, u64>,
    /// Ids of warnings it gave.
    pub warnings: Vec<String>,
    /// Ids of errors it met.
    pub errors: Vec<String>,
    pub evidence: Vec<Evidence>,
}

/// Something a run read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunInput {
    pub name: String,
    pub artifact_family: String,
    /// Relative to the bus home.
    pub path: String,
    /// Relative to the bus home.
    pub manifest_path: Option<String>,
    pub data_hash: Option<String>,
    pub schema_version: Option<String>,
    /// Whether the run fails without it.
    pub required: bool,
    /// Whether the run found it.
    pub resolution: Resolution,
}

/// Something a run wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunOutput {
    pub name: String,
    pub artifact_family: String,
    /// Relative to the bus home.
    pub path: String,
    /// Relative to the bus home.
    pub manifest_path: Option<String>,
    pub data_hash: Option<String>,
    pub schema_version: Option<String>,
    /// Whether it was published.
    pub promotion_status: Promotion,
    /// Whether the run failed without it.
    pub required: bool,
}

/// Record versions read and written, by family.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct SchemaVersions {
    /// Read.
    pub read: BTreeMap<String, BTreeSet<String>>,
    /// Written.
    pub written: BTreeMap<String, BTreeSet<String>>,
}

/// The nine counters every run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Files looked at.
    pub files_seen: u64,
    pub files_processed: u64,
    /// Files left out.
    pub files_skipped: u64,
    /// Records looked at.
    pub records_seen: u64,
    /// Records used.
    pub records_processed: u64,
    /// Records left out.
    pub records_skipped: u64,
    pub artifacts_written: u64,
    pub errors_count: u64,
    pub warnings_count: u64,
}

/// Where to look for more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// `file`, `manifest`, `log`, `artifact` or `url`.
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Or by which name.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Something that is not right and did not stop the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunWarning {
    /// Unique in the run.
    pub(crate) warning_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// In which stage.
    pub stage: String,
    /// For people.
    pub message: String,
    pub(crate) recorded_at: String,
}

/// How bad an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// One request or partition failed.
    Error,
    Fatal,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunError {
    /// Unique in the run.
    pub(crate) error_id: String,
    /// One of the six classes.
    #[serde(rename = "type")]
    pub class: ErrorClass,
    pub subtype: Option<String>,
    /// In which stage.
    pub stage: String,
    /// For people.
    pub message: String,
    /// What the class requires.
    pub details: Option<Value>,
    pub evidence: Vec<Evidence>,
    pub remediation_hint: String,
    /// How bad it is.
    pub severity: Severity,
    pub(crate) recorded_at: String,
}

/// Where a run happened; never a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    pub os: String,
    pub arch: String,
    /// Hash of the effective configuration.
    pub config_fingerprint: String,
    /// The time zone days are cut in.
    pub timezone: String,
}

/// A whole run record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunRecord {
    /// `run_record.v1`.
    pub run_record_version: String,
    pub run_id: String,
    pub created_at: String,
    /// When it ended; none when it was killed.
    pub completed_at: Option<String>,
    pub status: RunStatus,
    /// Whose it is.
    pub project: Project,
    pub entrypoint: String,
    /// Its stages, in order.
    pub stages: Vec<Stage>,
    pub inputs: Vec<RunInput>,
    pub outputs: Vec<RunOutput>,
    /// Versions read and written.
    pub schema_versions: SchemaVersions,
    pub counters: Counters,
    /// What was not right.
    pub warnings: Vec<RunWarning>,
    pub errors: Vec<RunError>,
    pub environment: Environment,
}

impl RunRecord {
    /// The version of run records.
    pub(crate) const VERSION: &str = "run_record.v1";

    /// Its file, relative to the bus home.
    pub(crate) fn path(&self) -> String {
        record_path(&self.run_id)
    }

    pub(crate) fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        Ok(to_file(self)?.into_bytes())
    }

    /// The status dashboards show.
    pub(crate) fn ui_status(&self) -> &'static str {
        match self.status {
            RunStatus::Error => "FAIL",
            RunStatus::PartialSuccess => "WARN",
            _ if self.counters.warnings_count > 0 => "WARN",
            RunStatus::Success | RunStatus::EmptySuccess => "OK",
        }
    }

    /// Its line in the run-records bus, without the line end. `whole` is the record as its file has it,
    /// which may list more outputs.
    pub(crate) fn to_row(&self, whole: &RunRecord) -> serde_json::Result<String> {
        let outputs: Vec<Value> = self
            .outputs
            .iter()
            .map(|one| json!({"bus": one.artifact_family, "path": one.path, "data_hash": one.data_hash}))
            .collect();
        let first_error = self.errors.first();
        to_line(&json!({
            "schema_version": "run_record_row.v1",
            "run_id": self.run_id,
            "project_id": self.project.project_id,
            "operator": self.entrypoint,
            "started_at": self.created_at,
            "ended_at": self.completed_at,
            "ts_start": self.created_at,
            "ts_end": self.completed_at,
            "status": self.ui_status(),
            "run_status": self.status,
            "error_code": first_error.map(|error| {
                error.subtype.clone().unwrap_or_else(|| error.class.to_string())
            }),
            "inputs_count": self.inputs.len(),
            "outputs_count": self.outputs.len(),
            "outputs": outputs,
            "manifest_path": self.path(),
            "manifest_pointer": self.path(),
            "record_sha256": sha256(whole.to_bytes()?).hex(),
            "log_path": null,
        }))
    }
}

/// One day of the run-records bus: data and manifest, rows sorted by run id.
pub(crate) fn render_day(
    day: Day,
    rows: &BTreeMap<String, String>,
) -> serde_json::Result<(Vec<u8>, Vec<u8>)> {
    let mut data = String::new();
    for row in rows.values() {
        data.push_str(row);
        data.push('\n');
    }
    let manifest = to_file(&json!({
        "schema_version": "run_records_manifest.v1",
        "bus_schema_version": "run_record_row.v1",
        "day": day.to_string(),
        "data_path": format!("{RUN_ROWS_DIR}/{day}.jsonl"),
        "counts": {"records_total": rows.len()},
        "integrity": {"sha256": sha256(&data).hex(), "bytes": data.len(), "lines": rows.len()},
    }))?;
    Ok((data.into_bytes(), manifest.into_bytes()))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contract::schema;

    pub(crate) fn sample() -> RunRecord {
        let at = || "2026-02-11T10:00:00.000Z".to_owned();
        RunRecord {
            run_record_version: RunRecord::VERSION.to_owned(),
            run_id: "run_20260211T100000Z_00000000".to_owned(),
            created_at: at(),
            completed_at: Some(at()),
            status: RunStatus::Success,
            project: Project {
                project_id: "summarizer".to_owned(),
                project_name: "Summarizer".to_owned(),
            },
            entrypoint: "summarizer drain".to_owned(),
            stages: vec![Stage {
                stage: "queue_read".to_owned(),
                started_at: Some(at()),
                completed_at: Some(at()),
                status: StageStatus::Success,
                counters: BTreeMap::from([("lines".to_owned(), 3)]),
                warnings: vec![],
                errors: vec!["err_1".to_owned()],
                evidence: vec![],
            }],
            inputs: vec![RunInput {
                name: "events".to_owned(),
                artifact_family: "event_bus".to_owned(),
                path: "eventbus/daily/2026-02-11.jsonl".to_owned(),
                manifest_path: Some("eventbus/manifest/2026-02-11.manifest.json".to_owned()),
                data_hash: Some(sha256("x").hex()),
                schema_version: Some("event.v1".to_owned()),
                required: true,
                resolution: Resolution::Present,
            }],
            outputs: vec![RunOutput {
                name: "events".to_owned(),
                artifact_family: "summary_bus".to_owned(),
                path: "summaries/events/2026-02-11.events.summary.jsonl".to_owned(),
                manifest_path: None,
                data_hash: None,
                schema_version: Some("event_summary.v1".to_owned()),
                promotion_status: Promotion::Promoted,
                required: true,
            }],
            schema_versions: SchemaVersions::default(),
            counters: Counters { errors_count: 1, ..Counters::default() },
            warnings: vec![],
            errors: vec![RunError {
                error_id: "err_1".to_owned(),
                class: ErrorClass::InputMissing,
                subtype: Some("MISSING_DAILY_FILE".to_owned()),
                stage: "input_resolution".to_owned(),
                message: "gone".to_owned(),
                details: Some(json!({"resolution": "missing"})),
                evidence: vec![],
                remediation_hint: "publish the day again".to_owned(),
                severity: Severity::Error,
                recorded_at: at(),
            }],
            environment: Environment {
                hostname: None,
                os: "linux".to_owned(),
                arch: "x86_64".to_owned(),
                config_fingerprint: sha256("config").hex(),
                timezone: "UTC".to_owned(),
            },
        }
    }

    #[test]
    fn record_row_and_day_satisfy_their_schemas() {
        for status in [
            RunStatus::Success,
            RunStatus::EmptySuccess,
            RunStatus::PartialSuccess,
            RunStatus::Error,
        ] {
            let mut record = sample();
            record.status = status;
            if status == RunStatus::Error {
                record.completed_at = None;
            }
            let value: Value = serde_json::from_slice(&record.to_bytes().unwrap()).unwrap();
            assert_eq!(schema::check("run_record.v1", &value), []);
            assert_eq!(serde_json::from_value::<RunRecord>(value).unwrap(), record);
            let row: Value = serde_json::from_str(&record.to_row(&record).unwrap()).unwrap();
            assert_eq!(schema::check("run_record_row.v1", &row), []);
            assert_eq!(row["error_code"], "MISSING_DAILY_FILE");
        }
        let rows = BTreeMap::from([("run_1".to_owned(), sample().to_row(&sample()).unwrap())]);
        let (data, manifest) = render_day("2026-02-11".parse().unwrap(), &rows).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        assert_eq!(schema::check("run_records_manifest.v1", &manifest), []);
        assert_eq!(manifest["integrity"]["sha256"], sha256(data).hex());
    }

    #[test]
    fn warnings_turn_ok_into_warn() {
        let mut record = sample();
        assert_eq!(record.ui_status(), "OK");
        record.counters.warnings_count = 1;
        assert_eq!(record.ui_status(), "WARN");
        record.status = RunStatus::Error;
        assert_eq!(record.ui_status(), "FAIL");
    }
}
