//! Appends one line to `logs/audit.jsonl` of the research run for each change to it. A line that
//! cannot be written is an error.

use serde_json::{Map, Value, json};

use super::run_dir::{RelPath, RunDir, RunDirError};
use crate::contract::json;
use crate::contract::time::Timestamp;

pub(super) const FILE: &str = "audit.jsonl";

pub fn append(
    dir: &RunDir<'_>,
    logs_dir: &RelPath,
    now: Timestamp,
    kind: &str,
    run_id: &str,
    details: Map<String, Value>,
) -> Result<(), RunDirError> {
    let mut line = json!({
        "schema_version": "research_audit.v1",
        "ts": now.to_string(),
        "kind": kind,
        "run_id": run_id,
        "reason": "command",
    });
    if let Some(object) = line.as_object_mut() {
        object.extend(details);
    }
    dir.append_line(&logs_dir.join(FILE), &json::line(&line))
}
