//! Gate D as the original tool judges it: its metrics, its leniency, its digest.
//!
//! It deliberately differs from our gate. The expected count is the number of wave-1 perspectives,
//! or of pack entries when those cannot be read. Duplicates, unknown ids and entries of other runs
//! count. A summary may lie anywhere. Citations and the sidecar are not checked. Its shape checks
//! are looser than our schemas and are therefore written here. One thing differs from the original:
//! the given run directory is used, not the directory in the manifest.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Number, Value, json};

use super::finding::{Code, Findings};
use super::gate_report::{CheckedFile, GateReport, kb, six_decimals};
use super::pack::PackLimits;
use super::receipt::Verdict;
use super::run_dir::{JSON_BYTES_MAX, MARKDOWN_BYTES_MAX, RunDir, RunDirError, read_bounded};
use crate::contract::hash::sha256;
use crate::contract::json::jcs_hash;

const RATIO_MIN: f64 = 0.9;

/// The verdict of the original tool. `None` where the original reports an error.
pub fn check(dir: &RunDir<'_>, findings: &mut Findings) -> Result<Option<GateReport>, RunDirError> {
    let Some(manifest) = json_file(dir, super::manifest::FILE, findings)? else { return Ok(None) };
    if let Some(path) = manifest_fault(&manifest) {
        let message = "not a manifest";
        findings.error(Code::SchemaValidationFailed, super::manifest::FILE, path, message);
        return Ok(None);
    }
    let path = |key: &str| {
        let path = manifest["artifacts"]["paths"][key].as_str().unwrap_or_default();
        path.trim().trim_start_matches('/').to_owned()
    };
    let pack_path = path("summary_pack_file");
    let Some(pack) = json_file(dir, &pack_path, findings)? else { return Ok(None) };
    if pack["schema_version"] != "summary_pack.v1" {
        let message = "must be summary_pack.v1";
        findings.error(Code::SchemaValidationFailed, &pack_path, "$.schema_version", message);
        return Ok(None);
    }
    let none = Vec::new();
    let entries = pack["summaries"].as_array().unwrap_or(&none);
    // Unreadable perspectives are not an error here; the pack's own entries are counted instead.
    let perspectives =
        json_file(dir, &path("perspectives_file"), &mut Findings::default()).ok().flatten();
    let listed = perspectives.filter(perspectives_hold);
    let expected = listed.and_then(|doc| Some(doc["perspectives"].as_array()?.len()));
    let tally = measure(dir, entries, &pack_path, findings)?;
    let paths = [pack_path, path("summaries_dir")];
    Ok(Some(judge(&manifest, paths, entries, expected.unwrap_or(entries.len()), tally, findings)))
}

#[derive(Default)]
struct CompatTally {
    files: Vec<CheckedFile>,
    missing: usize,
}

fn measure(
    dir: &RunDir<'_>,
    entries: &[Value],
    pack_path: &str,
    findings: &mut Findings,
) -> Result<CompatTally, RunDirError> {
    let mut tally = CompatTally::default();
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.is_object()) {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().trim().to_owned();
        let summary_md = text("summary_md");
        let found = match summary_md.as_str() {
            "" => None,
            path => lossy(dir, path)?,
        };
        let Some(content) = found else {
            tally.missing += 1;
            let place = format!("$.summaries[{index}].summary_md");
            findings.error(Code::MissingSummary, pack_path, place, "the summary is missing");
            continue;
        };
        tally.files.push(CheckedFile {
            perspective_id: text("perspective_id"),
            summary_md,
            bytes: content.len() as u64,
            sha256: sha256(&content).hex(),
        });
    }
    Ok(tally)
}

/// A file as the original reads it: from any place, measured after decoding.
fn lossy(dir: &RunDir<'_>, path: &str) -> Result<Option<String>, RunDirError> {
    let failed = |source| RunDirError::Read { path: path.to_owned(), source };
    let place: PathBuf = dir.root().join(Path::new(path));
    match read_bounded(dir.disk(), &place, MARKDOWN_BYTES_MAX) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed(source)),
    }
}

fn json_file(
    dir: &RunDir<'_>,
    path: &str,
    findings: &mut Findings,
) -> Result<Option<Value>, RunDirError> {
    let failed = |source| RunDirError::Read { path: path.to_owned(), source };
    match read_bounded(dir.disk(), &dir.root().join(path), JSON_BYTES_MAX) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                findings.error(Code::InvalidJson, path, "", error.to_string());
                Ok(None)
            }
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            findings.error(Code::NotFound, path, "", "required file missing");
            Ok(None)
        }
        Err(source) => Err(failed(source)),
    }
}

fn judge(
    manifest: &Value,
    [pack_path, summaries_dir]: [String; 2],
    entries: &[Value],
    expected: usize,
    tally: CompatTally,
    findings: &mut Findings,
) -> GateReport {
    let limit = |key: &str| manifest["limits"][key].as_f64().unwrap_or_default();
    let count = tally.files.len();
    let ratio = if expected > 0 { count as f64 / expected as f64 } else { 0.0 };
    let largest = kb(tally.files.iter().map(|file| file.bytes).max().unwrap_or(0));
    let total = kb(tally.files.iter().map(|file| file.bytes).sum());
    if ratio < RATIO_MIN {
        let message = format!("{count} of {expected} perspectives are summarized");
        findings.error(Code::SummaryCountTooLow, &pack_path, "$.summaries", message);
    }
    for (size, key) in [(largest, "max_summary_kb"), (total, "max_total_summary_kb")] {
        if size > limit(key) {
            let message = format!("it has {size} KB; at most {} are allowed", limit(key));
            findings.error(Code::SizeCapExceeded, &pack_path, format!("$.limits.{key}"), message);
        }
    }
    let mut metrics = Map::new();
    metrics.insert("summary_count_ratio".into(), six_decimals(ratio));
    metrics.insert("max_summary_kb".into(), six_decimals(largest));
    metrics.insert("total_summary_pack_kb".into(), six_decimals(total));
    metrics.insert("summary_count".into(), json!(count));
    metrics.insert("expected_count".into(), json!(expected));
    let run_id = manifest["run_id"].as_str().unwrap_or_default().to_owned();
    let digest = jcs_hash(&json!({
        "schema": "gate_d_evaluate.inputs.v1",
        "run_id": run_id,
        "summary_pack_path": pack_path,
        "entries": entries,
        "metrics": metrics,
    }));
    let number = |key: &str| match &manifest["limits"][key] {
        Value::Number(number) => number.clone(),
        _ => Number::from(0),
    };
    let missing = format!("MISSING_SUMMARIES:{}", tally.missing);
    GateReport {
        schema_version: "gate_d_report.v1",
        run_id,
        gate_id: "D",
        profile: "compat",
        status: Verdict::of(findings.passes()),
        metrics,
        limits: PackLimits {
            max_summary_kb: number("max_summary_kb"),
            max_total_summary_kb: number("max_total_summary_kb"),
        },
        files: tally.files,
        inputs_digest: digest.prefixed(),
        errors: findings.errors(),
        warnings: findings.warnings(),
        findings: findings.sorted(),
        gate_warnings: if tally.missing > 0 { vec![missing] } else { Vec::new() },
        artifacts: vec![pack_path, summaries_dir],
    }
}

fn filled(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.trim().is_empty())
}

fn one_of(value: &Value, words: &[&str]) -> bool {
    value.as_str().is_some_and(|text| words.contains(&text))
}

/// The place of the first fault that the original finds in a manifest.
fn manifest_fault(value: &Value) -> Option<&'static str> {
    const STAGES: &[&str] = &[
        "init",
        "perspectives",
        "wave1",
        "pivot",
        "wave2",
        "citations",
        "summaries",
        "synthesis",
        "review",
        "finalize",
    ];
    const STATUSES: &[&str] = &["created", "running", "paused", "failed", "completed", "cancelled"];
    let (query, stage) = (&value["query"], &value["stage"]);
    let history = stage["history"].as_array();
    let artifacts = &value["artifacts"];
    let whole = |value: &Value| value.as_f64().is_some_and(|number| number.fract() == 0.0);
    let entry = |entry: &Value| {
        ["from", "to", "ts", "reason", "inputs_digest"].iter().all(|key| filled(&entry[key]))
            && whole(&entry["gates_revision"])
    };
    let limits = [
        "max_wave1_agents",
        "max_wave2_agents",
        "max_summary_kb",
        "max_total_summary_kb",
        "max_review_iterations",
    ];
    let paths = [
        "wave1_dir",
        "wave2_dir",
        "citations_dir",
        "summaries_dir",
        "synthesis_dir",
        "logs_dir",
        "gates_file",
        "perspectives_file",
        "citations_file",
        "summary_pack_file",
        "pivot_file",
    ];
    let absent_or = |value: &Value, fits: bool| value.is_null() || fits;
    let sensitivity = &query["sensitivity"];
    let checks = [
        (value.is_object(), "$"),
        (value["schema_version"] == "manifest.v1", "$.schema_version"),
        (filled(&value["run_id"]), "$.run_id"),
        (filled(&value["created_at"]), "$.created_at"),
        (filled(&value["updated_at"]), "$.updated_at"),
        (
            whole(&value["revision"]) && value["revision"].as_f64().is_some_and(|n| n >= 1.0),
            "$.revision",
        ),
        (one_of(&value["mode"], &["quick", "standard", "deep"]), "$.mode"),
        (one_of(&value["status"], STATUSES), "$.status"),
        (filled(&query["text"]), "$.query.text"),
        (absent_or(&query["constraints"], query["constraints"].is_object()), "$.query.constraints"),
        (
            absent_or(sensitivity, one_of(sensitivity, &["normal", "restricted", "no_web"])),
            "$.query.sensitivity",
        ),
        (one_of(&stage["current"], STAGES), "$.stage.current"),
        (filled(&stage["started_at"]), "$.stage.started_at"),
        (history.is_some_and(|entries| entries.iter().all(entry)), "$.stage.history"),
        (limits.iter().all(|key| value["limits"][key].is_number()), "$.limits"),
        (artifacts["root"].as_str().is_some_and(|root| root.starts_with('/')), "$.artifacts.root"),
        (paths.iter().all(|key| filled(&artifacts["paths"][key])), "$.artifacts.paths"),
        (value["metrics"].is_object(), "$.metrics"),
        (value["failures"].is_array(), "$.failures"),
    ];
    checks.into_iter().find(|(holds, _)| !holds).map(|(_, place)| place)
}

fn perspectives_hold(value: &Value) -> bool {
    let perspective = |item: &Value| {
        let contract = &item["prompt_contract"];
        ["id", "title", "agent_type"].iter().all(|key| filled(&item[key]))
            && one_of(&item["track"], &["standard", "independent", "contrarian"])
            && contract["max_words"].is_number()
            && contract["max_sources"].is_number()
            && contract["tool_budget"].is_object()
            && contract["must_include_sections"].as_array().is_some_and(|s| s.iter().all(filled))
    };
    value["schema_version"] == "perspectives.v1"
        && filled(&value["run_id"])
        && filled(&value["created_at"])
        && value["perspectives"].as_array().is_some_and(|list| list.iter().all(perspective))
}
