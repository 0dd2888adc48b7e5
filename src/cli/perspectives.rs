//! `perspectives check|write|draft`: the perspectives of a research run.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::Context;
use super::failure::{Exit, Failure};
use super::synthesis_common::{ResearchOptions, failure, keep, show, verdict};
use crate::contract::hash::sha256;
use crate::contract::json::{jcs_hash, to_file};
use crate::contract::shown::escaped;
use crate::contract::time::{Timestamp, parse_instant};
use crate::os::Disk;
use crate::synthesis::draft::{
    COUNT_DEFAULT, DraftInput, FLOW_COUNT_MAX, ROUTER_FLOW, adopt, draft,
};
use crate::synthesis::finding::{Code, Findings};
use crate::synthesis::perspectives::{PerspectiveRules, Perspectives, check};
use crate::synthesis::receipt::{Receipt, ReceiptKind};
use crate::synthesis::run_dir::{JSON_BYTES_MAX, RelPath, RunDir, is_run_id, read_bounded};
use crate::synthesis::{audit, run};

const FILE: &str = "perspectives.json";

/// Check, write or draft the perspectives of a research run
#[derive(Debug, Args)]
pub(crate) struct PerspectivesArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List all errors of a perspectives file
    Check {
        /// A run (directory or id), or a perspectives file
        run: PathBuf,
        #[command(flatten)]
        options: ResearchOptions,
    },
    /// Check a perspectives document and write it into a run in one step
    Write {
        /// The run (directory or id)
        run: PathBuf,
        /// The document; `-` for standard input
        #[arg(long, value_name = "FILE", default_value = "-")]
        from: PathBuf,
        #[command(flatten)]
        options: ResearchOptions,
    },
    /// Draft perspectives from an objective
    Draft {
        /// The objective of the research
        #[arg(long)]
        objective: String,
        /// How many perspectives
        #[arg(long, default_value_t = COUNT_DEFAULT)]
        count: usize,
        /// The run they belong to [default: derived from day and objective]
        #[arg(long, value_name = "ID")]
        run_id: Option<String>,
        /// The time at which they were made [default: now]
        #[arg(long, value_name = "TIME")]
        created_at: Option<String>,
        /// Provider that writes the drafts [default: as configured]
        #[arg(long, value_name = "NAME")]
        provider: Option<String>,
        #[command(flatten)]
        options: ResearchOptions,
    },
}

impl PerspectivesArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.action {
            Action::Check { run, options } => run_check(context, run, options),
            Action::Write { run, from, options } => run_write(context, run, from, options),
            Action::Draft { objective, count, run_id, created_at, provider, options } => {
                let created_at =
                    instant(created_at.as_deref())?.unwrap_or_else(|| context.machine.clock.now());
                if let Some(bad) = run_id.as_deref().filter(|id| !is_run_id(id)) {
                    return Err(Failure::new(Exit::Usage, format!("{bad:?} is not a run id")));
                }
                let run =
                    run_id.as_deref().map(|id| options.run_folder(context, id)).transpose()?;
                let agent_types = options.agent_types(context, run.as_deref())?.researchers();
                let input = DraftInput {
                    objective,
                    count: *count,
                    agent_types: &agent_types,
                    run_id: run_id.as_deref(),
                    created_at,
                };
                let drafted = drafted(context, input, provider.as_deref())?;
                context.ui.raw(escaped(&rendered(&drafted)?).as_bytes());
                Ok(Exit::Done)
            }
        }
    }
}

/// Drafts with the registered router flow, completes what is missing, and checks the result like any
/// other document.
fn drafted(
    context: &Context,
    input: DraftInput<'_>,
    provider: Option<&str>,
) -> Result<Perspectives, Failure> {
    let plain = draft(input)
        .map_err(|error| Failure::new(Exit::Usage, "cannot draft perspectives").because(&error))?;
    let mut inputs = serde_json::Map::new();
    inputs.insert("objective".into(), json!(input.objective));
    inputs.insert("max_perspectives".into(), json!(input.count.min(FLOW_COUNT_MAX)));
    inputs.insert("agent_type".into(), json!(input.agent_types.first()));
    let answer = super::flow_runner::ask(context, ROUTER_FLOW, provider, inputs)?;
    let (drafted, left_out) = adopt(&answer.structured, input, plain);
    if left_out > 0 {
        let what = "drafted perspectives that broke the rules were replaced";
        context.ui.talk(format!("{left_out} {what}"));
    }
    Ok(drafted)
}

fn rendered(drafted: &Perspectives) -> Result<String, Failure> {
    to_file(drafted)
        .map_err(|error| Failure::new(Exit::Bug, "cannot show the draft").because(&error))
}

/// A time from the command line.
pub fn instant(text: Option<&str>) -> Result<Option<Timestamp>, Failure> {
    let Some(text) = text else { return Ok(None) };
    match parse_instant(text) {
        Ok(instant) => Ok(Some(instant.at)),
        Err(error) => {
            Err(Failure::new(Exit::Usage, format!("cannot read {text:?}")).because(&error))
        }
    }
}

fn report(
    context: &Context,
    kind: ReceiptKind,
    run_id: &str,
    digest: Option<String>,
    findings: &Findings,
) -> Result<Exit, Failure> {
    let mut receipt = Receipt::new(kind, run_id, findings);
    receipt.outputs_digest = digest;
    keep(context, &receipt)?;
    if context.ui.json {
        context.ui.json(&json!({"receipt": receipt, "findings": findings.sorted()}));
    } else {
        show(context, &findings.sorted());
        let (errors, warnings) = (findings.errors(), findings.warnings());
        context.ui.out(verdict(findings.passes(), errors, warnings));
    }
    Ok(if findings.passes() { Exit::Done } else { Exit::Wrong })
}

fn run_check(context: &Context, target: &Path, options: &ResearchOptions) -> Result<Exit, Failure> {
    let disk = context.machine.disk.as_ref();
    let mut findings = Findings::default();
    let is_file = disk.stat(target).is_ok_and(|stat| stat.is_some_and(|stat| !stat.is_dir));
    if is_file {
        let agents = options.agent_types(context, target.parent())?;
        let bytes = bounded(disk, target)?;
        let rules = PerspectiveRules { agent_types: &agents, run_id: None };
        let file = target.display().to_string();
        let (run_id, digest) = match serde_json::from_slice::<Value>(&bytes) {
            Ok(value) => {
                check(&value, &file, rules, &mut findings);
                (named_run(&value), Some(jcs_hash(&value).prefixed()))
            }
            Err(error) => {
                findings.error(Code::InvalidJson, &file, "", error.to_string());
                (String::new(), None)
            }
        };
        return report(context, ReceiptKind::PerspectivesChecked, &run_id, digest, &findings);
    }
    let dir = options.open(context, target)?;
    let failed = |error| failure("cannot check the perspectives", &error);
    let (path, manifest_run) = place(&dir, &mut findings)?;
    let value = run::read_json(&dir, &path, &mut findings).map_err(failed)?;
    let Some(value) = value else {
        if findings.passes() {
            findings.error(Code::NotFound, path.as_str(), "", "the perspectives are missing");
        }
        return report(context, ReceiptKind::PerspectivesChecked, "", None, &findings);
    };
    let agents = options.agent_types(context, Some(dir.root()))?;
    let rules = PerspectiveRules { agent_types: &agents, run_id: manifest_run.as_deref() };
    check(&value, path.as_str(), rules, &mut findings);
    let digest = Some(jcs_hash(&value).prefixed());
    report(context, ReceiptKind::PerspectivesChecked, &named_run(&value), digest, &findings)
}

fn run_write(
    context: &Context,
    target: &Path,
    from: &Path,
    options: &ResearchOptions,
) -> Result<Exit, Failure> {
    let bytes = if from == Path::new("-") {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(JSON_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|error| {
            Failure::new(Exit::Input, "cannot read standard input").because(&error)
        })?;
        bytes
    } else {
        bounded(context.machine.disk.as_ref(), from)?
    };
    if bytes.len() as u64 > JSON_BYTES_MAX {
        return Err(Failure::new(Exit::Input, "the document is too large"));
    }
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::new(Exit::Input, "the document is not JSON").because(&error))?;
    let dir = options.open(context, target)?;
    let mut findings = Findings::default();
    let (path, manifest_run) = place(&dir, &mut findings)?;
    let agents = options.agent_types(context, Some(dir.root()))?;
    let rules = PerspectiveRules { agent_types: &agents, run_id: manifest_run.as_deref() };
    check(&value, path.as_str(), rules, &mut findings);
    let run_id = named_run(&value);
    if !findings.passes() {
        return report(context, ReceiptKind::PerspectivesWritten, &run_id, None, &findings);
    }
    let text = to_file(&value)
        .map_err(|error| Failure::new(Exit::Bug, "cannot write the document").because(&error))?;
    let failed = |error| failure("cannot write the perspectives", &error);
    dir.write(&path, text.as_bytes()).map_err(failed)?;
    let digest = jcs_hash(&value).prefixed();
    let logs = run::load_manifest(&dir, &mut Findings::default())
        .map_err(failed)?
        .map(|manifest| manifest.paths.logs_dir)
        .or_else(|| RelPath::parse("logs"));
    if let Some(logs) = logs {
        let mut details = serde_json::Map::new();
        details.insert("value_digest".into(), json!(digest));
        details.insert("sha256".into(), json!(sha256(&text).hex()));
        let now = context.machine.clock.now();
        audit::append(&dir, &logs, now, "perspectives_write", &run_id, details).map_err(failed)?;
    }
    report(context, ReceiptKind::PerspectivesWritten, &run_id, Some(digest), &findings)
}

/// The place of a run's perspectives, and the run that its manifest names. A new run may have no
/// manifest yet.
fn place(dir: &RunDir<'_>, findings: &mut Findings) -> Result<(RelPath, Option<String>), Failure> {
    let usual = || {
        RelPath::parse(FILE).ok_or_else(|| {
            Failure::new(Exit::Bug, "the default place of perspectives is not a valid path")
        })
    };
    let mut found = Findings::default();
    let manifest = run::load_manifest(dir, &mut found)
        .map_err(|error| failure("cannot read the manifest", &error))?;
    let absent = manifest.is_none() && found.has(Code::NotFound);
    if !absent {
        findings.extend(found);
    }
    match manifest {
        Some(manifest) => Ok((manifest.paths.perspectives, Some(manifest.run_id))),
        None => Ok((usual()?, None)),
    }
}

fn named_run(value: &Value) -> String {
    value["run_id"].as_str().unwrap_or_default().to_owned()
}

fn bounded(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>, Failure> {
    read_bounded(disk, path, JSON_BYTES_MAX).map_err(|error| {
        Failure::new(Exit::Input, format!("cannot read {}", path.display())).because(&error)
    })
}
