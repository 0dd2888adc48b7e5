//! Python nodes, when the configuration allows them: one `python3` a node, JSON in and out, a time limit,
//! bounded output, a bare environment.
//!
//! Contract: the verified text of the pack is sent to the interpreter and runs. `python3 -I` excludes
//! the working directory and the user's site packages. A program can rely on the standard library and
//! a small replacement of `promptflow.core`.
//! Deliberately not here: protection from a malicious program. To allow Python is to trust the pack.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::outcome::FlowProblem;
use super::pack::LoadedPack;
use crate::os::process::{self, ProcessError, Program};

const SHIM: &str = include_str!("shim.py");
/// Most bytes a node may give back.
const OUTPUT_BYTES_MAX: usize = 8 << 20;

/// How Python nodes run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonSettings {
    pub interpreter: OsString,
    /// Most time for one node.
    pub timeout: Duration,
}

impl Default for PythonSettings {
    fn default() -> PythonSettings {
        PythonSettings { interpreter: "python3".into(), timeout: Duration::from_secs(60) }
    }
}

/// What a node is given.
pub(super) struct PythonCall<'a> {
    pub node: &'a str,
    pub path: &'a str,
    pub inputs: &'a Map<String, Value>,
    /// Inputs whose node was bypassed.
    pub bypassed: &'a [String],
    /// Inputs written in the flow, which are converted to the declared types.
    pub literals: &'a [String],
}

/// What a node gave: its output and the metrics it logged.
pub(super) fn run(
    pack: &LoadedPack,
    settings: &PythonSettings,
    call: &PythonCall<'_>,
) -> Result<(Value, Map<String, Value>), FlowProblem> {
    let failed = |reason: String, timed_out: bool| FlowProblem::Python {
        node: call.node.to_owned(),
        reason,
        timed_out,
    };
    let program = Program {
        program: settings.interpreter.clone(),
        args: vec!["-I".into(), "-B".into(), "-c".into(), SHIM.into()],
        folder: pack.folder.clone(),
        environment: Vec::new(),
        stdout_bytes_max: OUTPUT_BYTES_MAX,
        timeout: settings.timeout,
    };
    let request = json!({
        "path": call.path.trim_start_matches("./"),
        "files": pack.python_files,
        "inputs": call.inputs,
        "bypassed": call.bypassed,
        "literals": call.literals,
    });
    let finished = process::run(&program, request.to_string().as_bytes()).map_err(|error| {
        let timed_out = matches!(error, ProcessError::Timeout { .. });
        let because = std::error::Error::source(&error).map(|source| format!(": {source}"));
        failed(format!("{error}{}", because.unwrap_or_default()), timed_out)
    })?;
    let answer: Value = serde_json::from_slice(&finished.stdout).map_err(|_| {
        let last = finished.stderr.trim().lines().last().unwrap_or("it said nothing");
        failed(format!("the program ended without an answer: {last}"), false)
    })?;
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        return Err(failed(error.to_owned(), false));
    }
    let metrics = answer.get("metrics").and_then(Value::as_object).cloned().unwrap_or_default();
    Ok((answer.get("output").cloned().unwrap_or_default(), metrics))
}
