//! `pack build|check`: the bounded input of synthesis, and Gate D over it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Context;
use super::data_rules::{file_places, said_of};
use super::failure::{Exit, Failure};
use super::home::refuse_own_folder;
use super::perspectives::instant;
use super::settings::load_config;
use super::synthesis_common::{ResearchOptions, failure, keep, show, verdict};
use crate::config::Config;
use crate::contract::privacy::Confinement;
use crate::model::builtin::Builtin;
use crate::model::{Provider, Providers};
use crate::synthesis::audit;
use crate::synthesis::build::{BuildOptions, PackBuild, SummarizeInput, WrittenPack, build};
use crate::synthesis::finding::Findings;
use crate::synthesis::gate::{CheckOptions, GateCheck, check};
use crate::synthesis::gate_report::write_report;
use crate::synthesis::gates::write_verdict;
use crate::synthesis::manifest::{self, Kilobytes};
use crate::synthesis::receipt::Verdict;
use crate::synthesis::run;
use crate::synthesis::run_dir::{JSON_BYTES_MAX, RelPath, RunDir, read_bounded};
use crate::synthesis::selection::{self, SelectionLimits};
use crate::synthesis::{summary_items, written};

/// The agent of the outputs that are made from summaries.
const SELECTION_AGENT: &str = "summarizer";

/// Build a summary pack, or check one with Gate D
#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Build the summary pack of a run
    Build(BuildArgs),
    /// Check the summary pack of a run with Gate D; exit with 1 when it fails
    Check(CheckArgs),
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// The run (directory or id); with a selection, the directory in which it is made [default: by its id]
    #[arg(required_unless_present = "from_selection")]
    run: Option<PathBuf>,
    /// Make the run from the existing summaries of this selection, one perspective for each group
    #[arg(long, value_name = "MANIFEST")]
    from_selection: Option<PathBuf>,
    /// The bus home that holds the summaries [default: HOME/buses]
    #[arg(long, value_name = "DIR", requires = "from_selection")]
    bus_home: Option<PathBuf>,
    /// Largest size of one summary in KB, with a selection
    #[arg(long, value_name = "KB", default_value = "5", requires = "from_selection")]
    max_summary_kb: serde_json::Number,
    /// Largest size of all summaries together in KB, with a selection
    #[arg(long, value_name = "KB", default_value = "60", requires = "from_selection")]
    max_total_summary_kb: serde_json::Number,
    /// The time written into the pack [default: when the manifest last changed]
    #[arg(long, value_name = "TIME")]
    generated_at: Option<String>,
    /// Check citations against their schema, and fail when a perspective has no cited claim
    #[arg(long)]
    strict: bool,
    /// Let this provider write the summaries; the rules of citation and size stay the same
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    #[command(flatten)]
    options: ResearchOptions,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The run (directory or id)
    run: PathBuf,
    /// Apply the rules of the original gate instead
    #[arg(long, conflicts_with = "strict")]
    compat: bool,
    /// Check citations against their schema, and fail when a perspective has no cited claim
    #[arg(long)]
    strict: bool,
    /// Write the verdict into the gates file of the run
    #[arg(long)]
    write_gates: bool,
    /// The revision the gates file must have
    #[arg(long, value_name = "N", requires = "write_gates")]
    expected_revision: Option<u64>,
    #[command(flatten)]
    options: ResearchOptions,
}

impl PackArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.action {
            Action::Build(args) => args.run(context),
            Action::Check(args) => args.run(context),
        }
    }
}

impl BuildArgs {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let generated_at = instant(self.generated_at.as_deref())?;
        let mut made = Findings::default();
        let dir = match (&self.from_selection, &self.run) {
            (Some(manifest), _) => match self.make_run(context, manifest, &mut made)? {
                Some(dir) => dir,
                None => return Ok(Exit::Input),
            },
            (None, Some(run)) => self.options.open(context, run)?,
            (None, None) => return Err(Failure::new(Exit::Usage, "no run is named")),
        };
        let agent_types = self.options.agent_types(context, Some(dir.root()))?;
        let bar = context.ui.progress("summaries", 0);
        let progress = || {
            bar.inc_length(1);
            bar.inc(1);
        };
        let config = load_config(context)?;
        let data = data_of_run(context, &config, &dir)?;
        let provider = self.provider.as_deref().map(|name| provider(context, &config, name, &data));
        let provider = provider.transpose()?;
        let timeout = Duration::from_millis(config.attempt_timeout_ms.max(1).unsigned_abs());
        let summarize = |input: SummarizeInput<'_>| match &provider {
            Some(provider) => written::summarize(&**provider, input, timeout),
            None => Err("no model was asked".to_owned()),
        };
        let options = BuildOptions {
            agent_types: &agent_types,
            generated_at,
            strict: self.strict,
            summarize: provider.is_some().then_some(&summarize),
            progress: &progress,
        };
        let built = build(&dir, &options);
        bar.finish_and_clear();
        let mut built = built.map_err(|error| failure("cannot build the pack", &error))?;
        // Nobody expects a summary to be missing that the selection names.
        for warning in made.sorted() {
            context.ui.complain(format!("warning: {} {}", warning.path, warning.message));
        }
        built.findings.extend(made);
        finish_build(context, &dir, &built)
    }
}

impl BuildArgs {
    /// The run of a selection, made or made again; `None` after showing why it cannot be.
    fn make_run<'a>(
        &self,
        context: &'a Context,
        manifest: &Path,
        findings: &mut Findings,
    ) -> Result<Option<RunDir<'a>>, Failure> {
        let disk = context.machine.disk.as_ref();
        let file = manifest.display().to_string();
        let bytes = read_bounded(disk, manifest, JSON_BYTES_MAX).map_err(|error| {
            Failure::new(Exit::Input, format!("cannot read {file}")).because(&error)
        })?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|error| {
            Failure::new(Exit::Input, format!("{file} is not JSON")).because(&error)
        })?;
        let limit = |number| {
            let bad = || {
                Failure::new(
                    Exit::Usage,
                    format!("{number} KB is not a valid limit: it must be above 0"),
                )
            };
            Kilobytes::new(number).ok_or_else(bad)
        };
        let limits = SelectionLimits {
            max_summary: limit(&self.max_summary_kb)?,
            max_total: limit(&self.max_total_summary_kb)?,
            agent_type: self.options.first_named().unwrap_or(SELECTION_AGENT).to_owned(),
            privacy: load_config(context)?.privacy,
        };
        let mut made = None;
        if let Some(selection) = selection::read(&value, &file, findings) {
            let target = match &self.run {
                Some(run) => run.clone(),
                None => self.options.research_root(context)?.join(&selection.run_id),
            };
            refuse_own_folder(context, &target)?;
            disk.create_dir_all(&target).map_err(|error| {
                let what = format!("cannot make {}", target.display());
                Failure::of_target(what, &error)
            })?;
            let dir = RunDir::open(disk, &target)
                .map_err(|error| failure("cannot open the run", &error))?;
            let bus_home = self.bus_home.clone().unwrap_or_else(|| context.home.join("buses"));
            let find = |ids: &BTreeSet<String>, days: Option<&BTreeSet<String>>| {
                summary_items::find(&bus_home, ids, days)
            };
            let done = selection::make_run(&dir, &selection, &find, &limits, findings).map_err(
                |error| {
                    Failure::new(Exit::Input, "cannot build from the selection").because(&error)
                },
            )?;
            made = done.then_some(dir);
        }
        if made.is_none() {
            if context.ui.json {
                context.ui.json(&json!({"findings": findings.sorted()}));
            } else {
                show(context, &findings.sorted());
                context.ui.out(verdict(false, findings.errors(), findings.warnings()));
            }
        }
        Ok(made)
    }
}

/// What the rules say of a run: of its folder, and of the summaries that it was made from.
fn data_of_run(
    context: &Context,
    config: &Config,
    dir: &RunDir<'_>,
) -> Result<Confinement, Failure> {
    let places = file_places(context, &dir.root().join(manifest::FILE));
    let manifest = run::load_manifest(dir, &mut Findings::default())
        .map_err(|error| failure("cannot read the manifest", &error))?;
    Ok(said_of(config, &places, manifest.is_some_and(|manifest| manifest.local_only)))
}

fn provider(
    context: &Context,
    config: &Config,
    name: &str,
    data: &Confinement,
) -> Result<Arc<dyn Provider>, Failure> {
    Providers::new(config, Arc::new(Builtin), &context.machine)
        .and_then(|providers| providers.for_flow(written::FLOW, None, Some(name), data))
        .map_err(|error| {
            Failure::new(Exit::Config, "no provider is configured to write the summaries")
                .because(&error)
                .hint("a provider is a section [provider.NAME] of summarizer.toml")
        })
}

fn finish_build(context: &Context, dir: &RunDir<'_>, built: &PackBuild) -> Result<Exit, Failure> {
    keep(context, &built.receipt)?;
    if let Some(written) = &built.pack {
        let mut details = Map::new();
        details.insert("summary_count".into(), json!(written.summaries));
        details.insert("inputs_digest".into(), json!(written.inputs_digest));
        details.insert("outputs_digest".into(), json!(written.outputs_digest));
        if !written.not_drafts.is_empty() {
            details.insert("not_drafts".into(), json!(written.not_drafts));
        }
        record(context, dir, "summary_pack_build", &built.receipt.run_id, details)?;
    }
    if context.ui.json {
        // Shown as it was written; nothing else needs it whole.
        let read = |path: &RelPath| {
            run::read_json(dir, path, &mut Findings::default())
                .map_err(|error| failure("cannot read the pack again", &error))
        };
        let pack = built.pack.as_ref().map(|written| read(&written.pack)).transpose()?;
        let meta = built.pack.as_ref().map(|written| read(&written.meta)).transpose()?;
        context.ui.json(&json!({
            "receipt": built.receipt, "pack": pack.flatten(), "meta": meta.flatten(),
            "findings": built.findings.sorted(),
        }));
    } else {
        show(context, &built.findings.sorted());
        match &built.pack {
            Some(WrittenPack { summaries, claims, bytes, left_out, meta, .. }) => {
                let summaries = super::ui::count(*summaries, "summary");
                let claims = super::ui::count(*claims, "claim");
                let bytes = super::ui::count(*bytes, "byte");
                context.ui.out(format!("built  {summaries}, {claims}, {bytes}"));
                if *left_out > 0 {
                    let findings = super::ui::count(*left_out, "finding");
                    context
                        .ui
                        .out(format!("left out  {findings}; {meta} lists each with the reason"));
                }
            }
            None => {
                context.ui.out(verdict(false, built.findings.errors(), built.findings.warnings()))
            }
        }
    }
    Ok(if built.pack.is_some() { Exit::Done } else { Exit::Input })
}

impl CheckArgs {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let dir = self.options.open(context, &self.run)?;
        let agent_types = self.options.agent_types(context, Some(dir.root()))?;
        let options =
            CheckOptions { agent_types: &agent_types, compat: self.compat, strict: self.strict };
        let failed = |error| failure("cannot check the pack", &error);
        let checked = check(&dir, &options).map_err(failed)?;
        keep(context, &checked.receipt)?;
        let mut gate_findings = Findings::default();
        let mut revision = None;
        if let Some(report) = &checked.report {
            write_report(&dir, report).map_err(failed)?;
            let mut details = Map::new();
            details.insert("status".into(), json!(report.status));
            details.insert("profile".into(), json!(report.profile));
            details.insert("metrics".into(), Value::Object(report.metrics.clone()));
            details.insert("inputs_digest".into(), json!(report.inputs_digest));
            record(context, &dir, "gate_d_evaluate", &report.run_id, details)?;
            if self.write_gates {
                let now = context.machine.clock.now();
                let path = gates_path(&dir)?;
                revision = write_verdict(
                    &dir,
                    &path,
                    report,
                    self.expected_revision,
                    now,
                    &mut gate_findings,
                )
                .map_err(failed)?;
            }
        }
        if let Some(revision) = revision {
            let mut details = Map::new();
            details.insert("new_revision".into(), json!(revision));
            details.insert("inputs_digest".into(), json!(checked.receipt.inputs_digest));
            record(context, &dir, "gates_write", &checked.receipt.run_id, details)?;
        }
        self.answer(context, &checked, &gate_findings, revision);
        let refused = self.write_gates && revision.is_none();
        Ok(match (&checked.report, refused) {
            (None, _) | (_, true) => Exit::Input,
            (Some(report), false) if report.status == Verdict::Pass => Exit::Done,
            _ => Exit::Wrong,
        })
    }

    fn answer(
        &self,
        context: &Context,
        checked: &GateCheck,
        gate_findings: &Findings,
        revision: Option<u64>,
    ) {
        let mut findings = checked.findings.clone();
        findings.extend(gate_findings.clone());
        if context.ui.json {
            context.ui.json(&json!({
                "receipt": checked.receipt, "report": checked.report,
                "gates_revision": revision, "findings": findings.sorted(),
            }));
            return;
        }
        show(context, &findings.sorted());
        if let Some(report) = &checked.report {
            for (name, value) in &report.metrics {
                context.ui.out(format!("{name}  {value}"));
            }
        }
        if let Some(revision) = revision {
            context.ui.out(format!("gates file is at revision {revision}"));
        }
        let passes = checked.receipt.verdict == Verdict::Pass;
        context.ui.out(verdict(passes, findings.errors(), findings.warnings()));
    }
}

fn gates_path(dir: &RunDir<'_>) -> Result<RelPath, Failure> {
    run::load_manifest(dir, &mut Findings::default())
        .map_err(|error| failure("cannot read the manifest", &error))?
        .map(|manifest| manifest.paths.gates)
        .or_else(|| RelPath::parse("gates.json"))
        .ok_or_else(|| Failure::new(Exit::Input, "the run names no path for its gates file"))
}

fn record(
    context: &Context,
    dir: &RunDir<'_>,
    kind: &str,
    run_id: &str,
    details: Map<String, Value>,
) -> Result<(), Failure> {
    let failed = |error| failure("cannot record what was done", &error);
    let logs = run::load_manifest(dir, &mut Findings::default())
        .map_err(failed)?
        .map(|manifest| manifest.paths.logs_dir)
        .or_else(|| RelPath::parse("logs"));
    let Some(logs) = logs else { return Ok(()) };
    audit::append(dir, &logs, context.machine.clock.now(), kind, run_id, details).map_err(failed)
}
