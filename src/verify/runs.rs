//! Run records, the run-records bus and selection manifests.

use std::collections::BTreeSet;
use std::io;
use std::path::{Component, Path};

use serde_json::Value;

use super::{Report, Tree, names, rules};
use crate::contract::hash::{Digest, sha256};
use crate::contract::json::jcs_hash;
use crate::contract::schema;
use crate::export::run_record::{RUN_RECORDS_DIR, RUN_ROWS_DIR};
use crate::os::can_never_be_read;

/// Reads one JSON object and checks it against its schema; `None` when that fails.
fn object(
    tree: &Tree<'_>,
    path: &str,
    schema_name: &str,
    rule: &'static rules::Rule,
    report: &mut Report,
) -> io::Result<Option<Value>> {
    let bytes = tree.disk.read(&tree.root.join(path))?;
    report.file(bytes.len() as u64);
    let value: Value = match serde_json::from_slice(&bytes) {
        Ok(value) => value,
        Err(error) => {
            report.break_rule(rule, path, None, "", format!("not JSON: {error}"));
            return Ok(None);
        }
    };
    let found = schema::check(schema_name, &value);
    for violation in &found {
        report.break_rule(rule, path, None, &violation.pointer, violation.message.clone());
    }
    Ok(found.is_empty().then_some(value))
}

/// Checks one run record.
pub(super) fn check_record(tree: &Tree<'_>, path: &str, report: &mut Report) -> io::Result<()> {
    let record = object(tree, path, "run_record.v1", &rules::RUN_SCHEMA, report)?;
    let Some(record) = record else { return Ok(()) };
    let name = path.rsplit('/').next().unwrap_or_default();
    let run_id = record["run_id"].as_str().unwrap_or_default();
    if name != format!("{run_id}.run_record.json") {
        let message = format!("speaks of {run_id}");
        report.break_rule(&rules::RUN_NAME, path, None, "/run_id", message);
    }
    for (counter, list) in [("errors_count", "errors"), ("warnings_count", "warnings")] {
        let listed = record[list].as_array().map_or(0, Vec::len) as u64;
        if record["counters"][counter] != listed {
            let message = format!("{listed} are listed");
            let pointer = format!("/counters/{counter}");
            report.break_rule(&rules::RUN_COUNTERS, path, None, &pointer, message);
        }
    }
    let failed = record["status"] == "error";
    if failed && record["errors"].as_array().is_none_or(Vec::is_empty) {
        let message = "an error run lists no error".to_owned();
        report.break_rule(&rules::RUN_STATUS, path, None, "/status", message);
    }
    check_paths(path, &record, report);
    Ok(())
}

fn check_paths(path: &str, record: &Value, report: &mut Report) {
    for list in ["inputs", "outputs"] {
        for (index, entry) in record[list].as_array().into_iter().flatten().enumerate() {
            for field in ["path", "manifest_path"] {
                let Some(text) = entry[field].as_str() else { continue };
                let plain = Path::new(text)
                    .components()
                    .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
                if !plain {
                    let pointer = format!("/{list}/{index}/{field}");
                    let message = format!("{text} leads outside");
                    report.break_rule(&rules::RUN_PATHS, path, None, &pointer, message);
                }
            }
        }
    }
}

/// Checks one day of the run-records bus.
pub(super) fn check_day(tree: &Tree<'_>, day: &str, report: &mut Report) -> io::Result<()> {
    let data_path = format!("{RUN_ROWS_DIR}/{day}.jsonl");
    let manifest_path = format!("{RUN_ROWS_DIR}/{day}.manifest.json");
    let present = |path: &str| Ok::<_, io::Error>(tree.disk.stat(&tree.root.join(path))?.is_some());
    if !present(&data_path)? {
        let message = format!("{data_path} is missing");
        report.break_rule(&rules::NO_DATA, &manifest_path, None, "", message);
        return Ok(());
    }
    let data = tree.disk.read(&tree.root.join(&data_path))?;
    report.file(data.len() as u64);
    let mut rows = 0_u64;
    for (index, line) in data.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        rows += 1;
        report.lines += 1;
        let number = Some(index as u64 + 1);
        match serde_json::from_slice::<Value>(line) {
            Err(error) => {
                let message = error.to_string();
                report.break_rule(&rules::ROW_SCHEMA, &data_path, number, "", message);
            }
            Ok(row) => {
                for violation in schema::check("run_record_row.v1", &row) {
                    let (pointer, message) = (violation.pointer, violation.message);
                    report.break_rule(&rules::ROW_SCHEMA, &data_path, number, &pointer, message);
                }
            }
        }
    }
    if !present(&manifest_path)? {
        let message = format!("{manifest_path} is missing");
        report.break_rule(&rules::NO_MANIFEST, &data_path, None, "", message);
        return Ok(());
    }
    let manifest =
        object(tree, &manifest_path, "run_records_manifest.v1", &rules::MANIFEST_SCHEMA, report)?;
    let Some(manifest) = manifest else { return Ok(()) };
    let mut broken = |rule, pointer: &str, message: String| {
        report.break_rule(rule, &manifest_path, None, pointer, message);
    };
    if manifest["day"] != day {
        broken(&rules::MANIFEST_NAME, "/day", format!("the file name says {day}"));
    }
    let hash = sha256(&data);
    let declared = manifest["integrity"]["sha256"].as_str().unwrap_or_default();
    if declared.parse::<Digest>() != Ok(hash) {
        broken(&rules::MANIFEST_HASH, "/integrity/sha256", format!("the data has {hash}"));
    }
    if manifest["integrity"]["bytes"] != data.len() as u64 {
        let message = format!("the data has {} bytes", data.len());
        broken(&rules::MANIFEST_BYTES, "/integrity/bytes", message);
    }
    for pointer in ["/counts/records_total", "/integrity/lines"] {
        if manifest.pointer(pointer).is_none_or(|said| *said != rows) {
            broken(&rules::MANIFEST_COUNTS, pointer, format!("there are {rows}"));
        }
    }
    if manifest["data_path"] != data_path {
        broken(&rules::MANIFEST_NAME, "/data_path", format!("the data is {data_path}"));
    }
    Ok(())
}

/// Every row must have its record. Told only where both places exist.
pub(super) fn check_rows(tree: &Tree<'_>, report: &mut Report) -> io::Result<()> {
    let records: BTreeSet<String> = names(tree, RUN_RECORDS_DIR)?.into_iter().collect();
    for name in names(tree, RUN_ROWS_DIR)? {
        if !name.ends_with(".jsonl") || name.starts_with('.') {
            continue;
        }
        let path = format!("{RUN_ROWS_DIR}/{name}");
        let data = match tree.disk.read(&tree.root.join(&path)) {
            // It is told where it lies.
            Err(error) if can_never_be_read(&error) => continue,
            read => read?,
        };
        for (index, line) in data.split(|byte| *byte == b'\n').enumerate() {
            let row: Value = serde_json::from_slice(line).unwrap_or_default();
            let Some(run_id) = row["run_id"].as_str() else { continue };
            let line = Some(index as u64 + 1);
            let name = format!("{run_id}.run_record.json");
            if !records.contains(&name) {
                let message = format!("{RUN_RECORDS_DIR} has no record of {run_id}");
                report.break_rule(&rules::ROW_RECORD, &path, line, "/run_id", message);
                continue;
            }
            let Some(hash) = row["record_sha256"].as_str() else { continue };
            let record = format!("{RUN_RECORDS_DIR}/{name}");
            let bytes = match tree.disk.read(&tree.root.join(&record)) {
                // It is told where it lies.
                Err(error) if can_never_be_read(&error) => continue,
                read => read?,
            };
            let actual = sha256(bytes).hex();
            if hash != actual {
                let message = format!("it has {actual}, its row in {path} says {hash}");
                report.break_rule(&rules::ROW_HASH, &record, None, "", message);
            }
        }
    }
    Ok(())
}

/// Checks one selection manifest; files of another form are not checked.
pub(super) fn check_selection(tree: &Tree<'_>, path: &str, report: &mut Report) -> io::Result<()> {
    let bytes = tree.disk.read(&tree.root.join(path))?;
    let Ok(value) = serde_json::from_slice::<Value>(&bytes) else {
        report.file(bytes.len() as u64);
        report.break_rule(&rules::SELECTION_SCHEMA, path, None, "", "not JSON".to_owned());
        return Ok(());
    };
    if value["schema_version"] != "selection_manifest.v1" {
        report.unchecked.push(format!("{path}: not a selection_manifest.v1"));
        return Ok(());
    }
    let checked = object(tree, path, "selection_manifest.v1", &rules::SELECTION_SCHEMA, report)?;
    let Some(value) = checked else { return Ok(()) };
    let observed = jcs_hash(&value["selection"]);
    let recorded = value["selection_hash"].as_str().unwrap_or_default().to_ascii_lowercase();
    if recorded.parse::<Digest>() != Ok(observed) {
        let message = format!("the selection has {}", observed.prefixed());
        report.break_rule(&rules::SELECTION_HASH, path, None, "/selection_hash", message);
    }
    Ok(())
}
