//! Writes the verdict of Gate D into `gates.json` and changes nothing else there.
//!
//! The file belongs to another program. Its revision must be the one that the caller expects, if
//! any, and must not change between reading and writing. The write changes the six members that a
//! gate may change, adds one to the revision, and sets the digest.

use serde_json::{Value, json};

use super::finding::{Code, Findings};
use super::gate_report::GateReport;
use super::receipt::Verdict;
use super::run::read_json;
use super::run_dir::{RelPath, RunDir, RunDirError};
use crate::contract::json::to_file;
use crate::contract::time::Timestamp;

/// Writes the verdict; the new revision, or `None` with findings when it must not be written.
pub fn write_verdict(
    dir: &RunDir<'_>,
    path: &RelPath,
    report: &GateReport,
    expected_revision: Option<u64>,
    now: Timestamp,
    findings: &mut Findings,
) -> Result<Option<u64>, RunDirError> {
    let before = findings.errors();
    let Some(read) = read_json(dir, path, findings)? else {
        if findings.errors() == before {
            findings.error(Code::NotFound, path.as_str(), "", "the run has no gates file");
        }
        return Ok(None);
    };
    findings.schema("gates.v1", &read, path.as_str());
    let revision = read["revision"].as_u64().unwrap_or_default();
    if let Some(expected) = expected_revision
        && expected != revision
    {
        let message = format!("expected revision {expected}, found {revision}");
        findings.error(Code::RevisionMismatch, path.as_str(), "$.revision", message);
    }
    if read["run_id"].as_str() != Some(&report.run_id) {
        let message = format!("the run_id is not {:?}", report.run_id);
        findings.error(Code::RunIdMismatch, path.as_str(), "$.run_id", message);
    }
    if findings.errors() > before {
        return Ok(None);
    }
    let next = revision + 1;
    let gates = patched(read.clone(), report, next, now);
    findings.schema("gates.v1", &gates, path.as_str());
    let text = to_file(&gates).map_err(|error| RunDirError::Write {
        path: path.as_str().to_owned(),
        source: error.into(),
    })?;
    if read_json(dir, path, findings)? != Some(read) {
        let message = "another program changed the file during the check; run the check again";
        findings.error(Code::RevisionMismatch, path.as_str(), "$.revision", message);
    }
    if findings.errors() > before {
        return Ok(None);
    }
    dir.write(path, text.as_bytes())?;
    Ok(Some(next))
}

fn patched(mut gates: Value, report: &GateReport, revision: u64, now: Timestamp) -> Value {
    let passes = report.status == Verdict::Pass;
    let gate = &mut gates["gates"]["D"];
    gate["status"] = json!(report.status);
    gate["checked_at"] = json!(now.to_string());
    gate["metrics"] = json!(report.metrics);
    gate["artifacts"] = json!(report.artifacts);
    gate["warnings"] = json!(report.gate_warnings);
    gate["notes"] = json!(if passes {
        "the pack is within its limits and complete"
    } else {
        "the pack fails; reports/gate-d.json lists why"
    });
    gates["revision"] = json!(revision);
    gates["updated_at"] = json!(now.to_string());
    gates["inputs_digest"] = json!(report.inputs_digest);
    gates
}
