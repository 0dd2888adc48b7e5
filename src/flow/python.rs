//! Python nodes, when the configuration allows them: one `python3` a node, JSON in and out, a time limit,
//! bounded output, a bare environment.
//!
//! Contract: the verified text of the pack is sent to the interpreter and runs. `python3 -I` excludes
//! the working directory and the user's site packages. A program can rely on the standard library and
//! on a small replacement of what programs import from `promptflow`, where that is not installed.
//! A connection is named by an input: its members come from a file of that name in the folder of the
//! pack, and from environment variables that begin with its name.
//! A node runs in a jail (`os::jail`) unless the settings say otherwise: it reads the files of its pack and
//! of the interpreter, writes a folder that is removed afterwards, and has no network.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::outcome::FlowProblem;
use super::pack::LoadedPack;
use super::python_variables::{chosen, variable_prefix, variables_of_this_process};
use crate::os::jail::Jail;
use crate::os::process::{self, ProcessError, Program};

const SHIM: &str = include_str!("shim.py");
/// Most bytes a node may give back.
const OUTPUT_BYTES_MAX: usize = 8 << 20;

/// How Python nodes run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonSettings {
    pub interpreter: OsString,
    /// Most time for one node.
    pub timeout: Duration,
    pub jail: PythonJail,
    /// The environment variables that connections may come from; `None` stands for those of this process.
    pub variables: Option<Vec<(OsString, OsString)>>,
}

/// What a node may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PythonJail {
    /// Everything that the service may do.
    Off,
    On {
        network: bool,
        memory_bytes_max: u64,
    },
}

impl Default for PythonSettings {
    fn default() -> PythonSettings {
        PythonSettings {
            interpreter: "python3".into(),
            timeout: Duration::from_secs(60),
            jail: PythonJail::Off,
            variables: None,
        }
    }
}

/// What a node is given.
pub(super) struct PythonCall<'a> {
    pub node: &'a str,
    pub path: &'a str,
    pub inputs: &'a Map<String, Value>,
    /// Inputs whose node was bypassed.
    pub(crate) bypassed: &'a [String],
    /// Inputs written in the flow, which are converted to the declared types.
    pub literals: &'a [String],
    /// The function or class that runs, where the flow names it; else the one tool of the program.
    pub(crate) entry: Option<&'a str>,
    /// Whether the flow reads members of the result.
    pub(crate) has_members: bool,
}

/// The environment variables that a node may read: those of the connections that the flow itself names.
fn connection_variables(
    settings: &PythonSettings,
    call: &PythonCall<'_>,
) -> Vec<(OsString, OsString)> {
    let named = call.inputs.iter().filter(|(name, _)| call.literals.contains(name));
    let prefixes: Vec<String> =
        named.filter_map(|(_, value)| variable_prefix(value.as_str()?)).collect();
    match &settings.variables {
        None => variables_of_this_process(&prefixes),
        Some(given) => chosen(given.iter().cloned(), &prefixes),
    }
}

/// An interpreter as it describes itself.
#[derive(Clone)]
struct Interpreter {
    executable: OsString,
    /// Where its files are.
    places: Vec<PathBuf>,
}

/// Asks an interpreter where its files are, once in the life of this process.
fn interpreter(settings: &PythonSettings) -> Result<Interpreter, ProcessError> {
    static KNOWN: Mutex<BTreeMap<OsString, Interpreter>> = Mutex::new(BTreeMap::new());
    const QUESTION: &str = "import sys, json; print(json.dumps(\
        [sys.executable, sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path]))";
    if let Some(known) = KNOWN.lock().get(&settings.interpreter) {
        return Ok(known.clone());
    }
    let asked = process::run(
        &Program {
            program: settings.interpreter.clone(),
            args: vec!["-I".into(), "-B".into(), "-c".into(), QUESTION.into()],
            folder: None,
            environment: Vec::new(),
            variables: Vec::new(),
            dies_with_us: true,
            stdout_bytes_max: OUTPUT_BYTES_MAX,
            timeout: settings.timeout,
            jail: None,
        },
        b"",
    )?;
    let said: Vec<String> = serde_json::from_slice(&asked.stdout).unwrap_or_default();
    let executable = said.first().filter(|path| !path.is_empty()).map(OsString::from);
    let found = Interpreter {
        executable: executable.unwrap_or_else(|| settings.interpreter.clone()),
        places: said.iter().filter(|path| !path.is_empty()).map(PathBuf::from).collect(),
    };
    KNOWN.lock().insert(settings.interpreter.clone(), found.clone());
    Ok(found)
}

/// The program to start, and its jail.
fn jail(
    pack: &LoadedPack,
    settings: &PythonSettings,
) -> Result<(OsString, Option<Jail>), ProcessError> {
    let PythonJail::On { network, memory_bytes_max } = settings.jail else {
        return Ok((settings.interpreter.clone(), None));
    };
    let Interpreter { executable, places } = interpreter(settings)?;
    let jail = Jail {
        read: places.into_iter().chain(pack.folder.clone()).collect(),
        write: Vec::new(),
        network,
        memory_bytes_max,
        cpu_seconds_max: settings.timeout.as_secs() + 1,
    };
    Ok((executable, Some(jail)))
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
    let timed_out = |error: ProcessError| {
        let timed_out = matches!(error, ProcessError::Timeout { .. });
        let because = std::error::Error::source(&error).map(|source| format!(": {source}"));
        failed(format!("{error}{}", because.unwrap_or_default()), timed_out)
    };
    let (interpreter, jail) = jail(pack, settings).map_err(&timed_out)?;
    let program = Program {
        program: interpreter,
        args: vec!["-I".into(), "-B".into(), "-c".into(), SHIM.into()],
        folder: pack.folder.clone(),
        environment: Vec::new(),
        variables: connection_variables(settings, call),
        dies_with_us: true,
        stdout_bytes_max: OUTPUT_BYTES_MAX,
        timeout: settings.timeout,
        jail,
    };
    let request = json!({
        "path": call.path.trim_start_matches("./"),
        "files": pack.python_files,
        "inputs": call.inputs,
        "bypassed": call.bypassed,
        "literals": call.literals,
        "entry": call.entry,
        "has_members": call.has_members,
        "environment": pack.environment,
        "has_folder": pack.folder.is_some(),
    });
    let finished = process::run(&program, request.to_string().as_bytes()).map_err(&timed_out)?;
    let answer: Value = serde_json::from_slice(&finished.stdout).map_err(|_| {
        let code = finished.code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
        let last = finished.stderr.trim().lines().last().unwrap_or("it said nothing");
        failed(format!("the program ended with {code} and without an answer: {last}"), false)
    })?;
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        return Err(failed(error.to_owned(), false));
    }
    let metrics = answer.get("metrics").and_then(Value::as_object).cloned().unwrap_or_default();
    Ok((answer.get("output").cloned().unwrap_or_default(), metrics))
}
