//! Python nodes, when the configuration allows them: one `python3` a node, JSON in and out, a time limit,
//! bounded output, a bare environment.
//!
//! Contract: the verified text of the pack is sent to the interpreter and runs. `python3 -I` excludes
//! the working directory and the user's site packages. A program can rely on the standard library and
//! on a small replacement of what programs import from `promptflow`, where that is not installed.
//! A connection is named by an input: its members come from a file of that name in the folder of the
//! pack, and from environment variables that begin with its name. A file may name further variables as
//! `${env:X}`. Where a person runs the flow, this process reads them for the connection. In a service the
//! pack may be anyone's: there a connection gets the variables that begin with its name, and no others.
//! A node runs in a jail (`os::jail`) unless the settings say otherwise: it reads the files of its pack and
//! of the interpreter, writes a folder that is removed afterwards, and has no network.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::connection_files::variables_of;
use super::outcome::FlowProblem;
use super::pack::LoadedPack;
use super::python_variables::{
    chosen, connections_of, variable_of_this_process, variable_prefix, variables_of_this_process,
};
use crate::contract::told::ToldFailure;
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
    /// The environment variables that connections may come from; `None` stands for those of this process,
    /// and for a person who runs the flow.
    pub variables: Option<Vec<(OsString, OsString)>>,
    /// Whether a person runs the flow also where variables are given: then a file of the pack may name any of them.
    pub by_person: bool,
}

impl PythonSettings {
    /// Whether a person runs the flow, who chose its files.
    pub(crate) fn is_by_person(&self) -> bool {
        self.by_person || self.variables.is_none()
    }

    /// The variable of this name that a file of the pack asks for.
    fn asked_for(&self, name: &str) -> Option<String> {
        match &self.variables {
            _ if !self.is_by_person() => None,
            None => variable_of_this_process(name),
            Some(given) => {
                let (_, value) = given.iter().find(|(known, _)| known.to_str() == Some(name))?;
                value.to_str().map(str::to_owned)
            }
        }
    }
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
            by_person: false,
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

/// The connections that the flow itself names for a node: in the node, or in its variables.
fn named_connections<'a>(pack: &'a LoadedPack, call: &'a PythonCall<'_>) -> BTreeSet<&'a str> {
    let literals = call.inputs.iter().filter(|(name, _)| call.literals.contains(name));
    let of_node = literals.filter_map(|(_, value)| value.as_str());
    of_node.chain(connections_of(&pack.environment)).collect()
}

/// The environment variables that a node may read: those of the connections that the flow itself names.
fn connection_variables(
    settings: &PythonSettings,
    named: &BTreeSet<&str>,
) -> Vec<(OsString, OsString)> {
    let prefixes: Vec<String> = named.iter().filter_map(|name| variable_prefix(name)).collect();
    match &settings.variables {
        None => variables_of_this_process(&prefixes),
        Some(given) => chosen(given.iter().cloned(), &prefixes),
    }
}

/// The connections that a node may make: the files that its inputs name, with the variables in them.
fn connections(
    pack: &LoadedPack,
    settings: &PythonSettings,
    call: &PythonCall<'_>,
    named: &BTreeSet<&str>,
) -> Value {
    let by_input = call.inputs.values().filter_map(Value::as_str);
    let names: BTreeSet<&str> = by_input.chain(named.iter().copied()).collect();
    let (mut files, mut variables) = (Map::new(), Map::new());
    for name in names {
        let file = match pack.connections.read(name) {
            None => continue,
            Some(Err(problem)) => json!({"problem": problem}),
            Some(Ok(members)) => {
                for variable in variables_of(&members) {
                    if let Some(value) = settings.asked_for(&variable) {
                        variables.insert(variable, value.into());
                    }
                }
                json!({"members": members})
            }
        };
        files.insert(name.to_owned(), file);
    }
    json!({
        "files": files,
        "variables": variables,
        "in_service": !settings.is_by_person(),
        "by_prefix": named.iter().filter(|name| variable_prefix(name).is_some()).collect::<Vec<_>>(),
    })
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
    let failed = |reason: ToldFailure, timed_out: bool| FlowProblem::Python {
        node: call.node.to_owned(),
        reason,
        timed_out,
    };
    let timed_out = |error: ProcessError| {
        let timed_out = matches!(error, ProcessError::Timeout { .. });
        let because = std::error::Error::source(&error).map(|source| format!(": {source}"));
        failed(format!("{error}{}", because.unwrap_or_default()).into(), timed_out)
    };
    let (interpreter, jail) = jail(pack, settings).map_err(&timed_out)?;
    let named = named_connections(pack, call);
    let program = Program {
        program: interpreter,
        args: vec!["-I".into(), "-B".into(), "-c".into(), SHIM.into()],
        folder: pack.folder.clone(),
        environment: Vec::new(),
        variables: connection_variables(settings, &named),
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
        "jailed": program.jail.is_some(),
        "environment": pack.environment,
        "connections": connections(pack, settings, call, &named),
        "has_folder": pack.folder.is_some(),
    });
    let finished = process::run(&program, request.to_string().as_bytes()).map_err(&timed_out)?;
    let answer: Value = serde_json::from_slice(&finished.stdout).map_err(|_| {
        let code = finished.code.map_or("a signal".to_owned(), |code| format!("exit code {code}"));
        let last = finished.stderr.trim().lines().last();
        let last = last.map_or(ToldFailure::from("it said nothing"), ToldFailure::by_others);
        let ended = format!("the program ended with {code} and without an answer: ");
        failed(ToldFailure::from(ended).and(last), false)
    })?;
    if let Some(error) = answer.get("error") {
        let said = ToldFailure::deserialize(error);
        let said = said.unwrap_or_else(|_| ToldFailure::by_others(error.to_string()));
        return Err(failed(said, false));
    }
    let metrics = answer.get("metrics").and_then(Value::as_object).cloned().unwrap_or_default();
    Ok((answer.get("output").cloned().unwrap_or_default(), metrics))
}
