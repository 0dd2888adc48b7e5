//! `flow`: runs one pack outside the log, over one input or many lines, and writes a new pack.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::Context;
use super::failure::{Exit, Failure};
use super::settings::load_config;
use super::ui::{bold, dim};
use crate::flow::{
    self, FlowError, FlowErrorClass, FlowOutcome, LoadedPack, PythonSettings, RunOptions, scaffold,
};
use crate::markup::document;
use crate::model::Recorder;
use crate::model::builtin::Builtin;
use crate::model::{Provider, Providers, SourceText};
use crate::registry::{PackFiles, Status, label};
use crate::work::params::python_of;

/// Longest input file.
const INPUT_BYTES_MAX: u64 = 256 << 20;

/// Run a flow pack, or write a new one
#[derive(Debug, Args)]
pub struct FlowArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(RunArgs),
    New(NewArgs),
}

/// Run one flow outside the log; needs no home
#[derive(Debug, Args)]
struct RunArgs {
    /// A registered flow, or a folder with a flow.dag.yaml or a prompty file
    flow_id: String,
    /// A .json object of flow inputs; any other file is the text of the main input
    #[arg(long, value_name = "FILE")]
    input: PathBuf,
    /// Its variant
    #[arg(long)]
    variant: Option<String>,
    /// A parameter; a value that is valid JSON is read as JSON, else as text
    #[arg(long = "param", value_name = "KEY=VALUE")]
    params: Vec<String>,
    /// Provider that answers [default: as configured]
    #[arg(long)]
    provider: Option<String>,
    /// Show the conversations
    #[arg(long)]
    show_prompts: bool,
    /// Keep the answers in this file, for the `recorded` provider
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// The input file holds one JSON object of flow inputs a line; prints one line of outputs for each
    #[arg(long)]
    lines: bool,
    /// Let Python nodes of the pack run
    #[arg(long)]
    allow_python: bool,
}

/// Write a small complete pack to start from
#[derive(Debug, Args)]
struct NewArgs {
    /// Id of the flow, such as `mail.digest.summarize.brief.v1`
    flow_id: String,
    /// Where to put the folder
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
}

impl FlowArgs {
    pub fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.action {
            Action::Run(args) => args.run(context),
            Action::New(args) => args.run(context),
        }
    }
}

impl NewArgs {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let folder = self.into.join(&self.flow_id);
        let is_id = self.flow_id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if !is_id || self.flow_id.starts_with('.') || self.flow_id.is_empty() {
            return Err(Failure::new(Exit::Usage, format!("{} is not a flow id", self.flow_id))
                .hint(
                    "letters, digits, dots, dashes and underscores; end with a version such as .v1",
                ));
        }
        let disk = &*context.machine.disk;
        if matches!(disk.stat(&folder), Ok(Some(_))) {
            return Err(Failure::new(
                Exit::Usage,
                format!("{} is already there", folder.display()),
            ));
        }
        let write = || -> std::io::Result<()> {
            disk.create_dir_all(&folder)?;
            for (name, text) in scaffold::new_pack() {
                disk.replace(&folder.join(name), text.as_bytes(), 0o640)?;
            }
            Ok(())
        };
        write().map_err(|error| {
            Failure::new(Exit::Storage, format!("cannot write {}", folder.display()))
                .because(&error)
        })?;
        if context.ui.json {
            context.ui.json(&json!({"flow_id": self.flow_id, "folder": folder}));
        } else {
            context.ui.out(folder.display().to_string());
            context.ui.talk("try it: summarizer flow run THAT_FOLDER --input SOME_TEXT");
            context.ui.talk("keep it: summarizer registry add THAT_FOLDER");
        }
        Ok(Exit::Done)
    }
}

impl RunArgs {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let pack = self.pack(context)?;
        let provider = self.provider(context, &pack)?;
        let options = self.options(context, &pack)?;
        let recorder = Recorder::new(provider);
        let exit = if self.lines {
            self.run_lines(context, &pack, &recorder, &options)
        } else {
            self.run_once(context, &pack, &recorder, &options)
        };
        if let Some(path) = &self.record {
            save(context, path, &recorder.lines())?;
        }
        exit
    }

    fn pack(&self, context: &Context) -> Result<LoadedPack, Failure> {
        let disk = &*context.machine.disk;
        let unusable = |error: &(dyn std::error::Error + 'static)| {
            Failure::new(Exit::Config, format!("cannot use the pack of {}", self.flow_id))
                .because(error)
        };
        let folder = Path::new(&self.flow_id);
        if matches!(disk.stat(folder), Ok(Some(stat)) if stat.is_dir) {
            let files = PackFiles::read(disk, folder).map_err(|error| unusable(&error))?;
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            let name = name.unwrap_or_else(|| "flow".to_owned());
            let mut record =
                scaffold::record_for(&name, self.variant.as_deref(), &self.flow_id, &files)
                    .map_err(|error| unusable(&error))?;
            record.seal(&files, context.machine.clock.now().to_string());
            return LoadedPack::load(&record, &files).map_err(|error| unusable(&error));
        }
        let registry = super::registry::load(context)?;
        let record = super::registry::find(&registry, &self.flow_id, self.variant.as_deref())?;
        match record.status {
            Status::Disabled => {
                let what = format!("{} is disabled", label(&self.flow_id, self.variant.as_deref()));
                return Err(Failure::new(Exit::Usage, what));
            }
            Status::Deprecated => context.ui.talk(format!("{} is deprecated", self.flow_id)),
            Status::Active => {}
        }
        let files = registry.verified_files(disk, record).map_err(|error| unusable(&error))?;
        LoadedPack::load(record, &files).map_err(|error| unusable(&error))
    }

    fn provider(&self, context: &Context, pack: &LoadedPack) -> Result<Arc<dyn Provider>, Failure> {
        let config = load_config(context)?;
        let record = pack.record();
        let found =
            Providers::new(&config, Arc::new(Builtin), &context.machine).and_then(|providers| {
                let asked_for = self.provider.as_deref();
                providers.for_flow(&record.flow_id, record.variant.as_deref(), asked_for)
            });
        found.map_err(|error| {
            Failure::new(Exit::Config, "cannot set up the provider")
                .because(&error)
                .hint("a provider is a section [provider.NAME] of summarizer.toml")
        })
    }

    fn options(
        &self,
        context: &Context,
        pack: &LoadedPack,
    ) -> Result<RunOptions<'static>, Failure> {
        let config = load_config(context)?;
        let record = pack.record();
        let mut params = config.flow_params(&record.flow_id, record.variant.as_deref());
        for given in &self.params {
            let (key, value) = given.split_once('=').ok_or_else(|| {
                Failure::new(Exit::Usage, format!("`--param {given}` has no `=`"))
            })?;
            let value =
                serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
            params.insert(key.to_owned(), value);
        }
        Ok(RunOptions {
            params,
            timeout: Duration::from_millis(config.attempt_timeout_ms.max(1).unsigned_abs()),
            python: python_of(&config).or(self.allow_python.then(PythonSettings::default)),
            repair_turns: config.repair_turns,
            keep_prompts: self.show_prompts,
            ..RunOptions::default()
        })
    }

    /// The text of the input; a page, a paper or a mail is read as on every other way in.
    fn read_input(&self, context: &Context) -> Result<String, Failure> {
        let disk = &*context.machine.disk;
        let unreadable =
            || Failure::new(Exit::Input, format!("cannot read {}", self.input.display()));
        match disk.stat(&self.input) {
            Ok(Some(stat)) if stat.len > INPUT_BYTES_MAX => {
                return Err(unreadable().hint(format!("it has more than {INPUT_BYTES_MAX} bytes")));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Err(unreadable().hint("there is no such file")),
            Err(error) => return Err(unreadable().because(&error)),
        }
        let bytes = disk.read(&self.input).map_err(|error| unreadable().because(&error))?;
        let name = self.input.file_name().unwrap_or_default().to_string_lossy();
        if document::has_known_name(&name) {
            let read = document::read(&name, &bytes).map_err(|why| unreadable().hint(why))?;
            return Ok(read.text);
        }
        String::from_utf8(bytes).map_err(|error| unreadable().because(&error))
    }

    fn run_once(
        &self,
        context: &Context,
        pack: &LoadedPack,
        provider: &dyn Provider,
        options: &RunOptions<'_>,
    ) -> Result<Exit, Failure> {
        let text = self.read_input(context)?;
        let is_json = self.input.extension().is_some_and(|extension| extension == "json");
        let (inputs, sources) = if is_json {
            (self.object(&text, "the input")?, Vec::new())
        } else {
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            let text = text.replace("\r\n", "\n").replace('\r', "\n");
            let id = self.input.file_name().map(|name| name.to_string_lossy().into_owned());
            (Map::new(), vec![SourceText { id: id.unwrap_or_default(), text }])
        };
        let ran = run_patiently(context, pack, inputs, &sources, provider, options);
        let outcome = ran.map_err(|error| {
            if self.show_prompts {
                show_calls(context, &error.calls);
            }
            failed(&self.flow_id, &error)
        })?;
        let metrics = flow::aggregate(pack, std::slice::from_ref(&outcome), provider, options);
        let metrics = metrics.map_err(|error| {
            Failure::new(Exit::Wrong, format!("cannot aggregate the results of {}", self.flow_id))
                .because(&error)
        })?;
        report(context, pack, &outcome, &metrics, self.show_prompts);
        Ok(Exit::Done)
    }

    fn object(&self, text: &str, what: &str) -> Result<Map<String, Value>, Failure> {
        let no_object =
            || Failure::new(Exit::Input, format!("{what} is not a JSON object of flow inputs"));
        match serde_json::from_str(text) {
            Ok(Value::Object(members)) => Ok(members),
            Ok(_) => Err(no_object()),
            Err(error) => Err(no_object().because(&error)),
        }
    }

    fn run_lines(
        &self,
        context: &Context,
        pack: &LoadedPack,
        provider: &dyn Provider,
        options: &RunOptions<'_>,
    ) -> Result<Exit, Failure> {
        let text = self.read_input(context)?;
        let mut lines = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            lines.push(self.object(line, &format!("line {}", index + 1))?);
        }
        let bar = context.ui.progress("running", lines.len() as u64);
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Result<FlowOutcome, FlowError>>>> =
            lines.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..options.concurrency.max(1).min(lines.len()) {
                scope.spawn(|| {
                    loop {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(line) = lines.get(index) else { return };
                        let ran =
                            run_patiently(context, pack, line.clone(), &[], provider, options);
                        *results[index].lock() = Some(ran);
                        bar.inc(1);
                    }
                });
            }
        });
        bar.finish_and_clear();
        let mut outcomes = Vec::new();
        let mut errors = 0;
        for (index, result) in results.into_iter().enumerate() {
            match result.into_inner() {
                Some(Ok(outcome)) => {
                    context.ui.json(&json!({"line": index + 1, "outputs": outcome.outputs}));
                    outcomes.push(outcome);
                }
                Some(Err(error)) => {
                    errors += 1;
                    let (reason, text) = (error.reason_code(), error.to_string());
                    context
                        .ui
                        .json(&json!({"line": index + 1, "error": text, "reason_code": reason}));
                }
                None => {}
            }
        }
        let metrics = flow::aggregate(pack, &outcomes, provider, options).map_err(|error| {
            Failure::new(Exit::Wrong, format!("cannot aggregate the results of {}", self.flow_id))
                .because(&error)
        })?;
        if !metrics.is_empty() {
            context.ui.json(&json!({"metrics": metrics}));
        }
        context.ui.talk(format!("{} done, {errors} failed", outcomes.len()));
        Ok(if errors > 0 { Exit::Wrong } else { Exit::Done })
    }
}

/// Asks a registered flow once, for a command that needs its answer.
pub fn ask(
    context: &Context,
    flow_id: &str,
    provider: Option<&str>,
    inputs: Map<String, Value>,
) -> Result<FlowOutcome, Failure> {
    let args = RunArgs {
        flow_id: flow_id.to_owned(),
        input: PathBuf::new(),
        variant: None,
        params: Vec::new(),
        provider: provider.map(str::to_owned),
        show_prompts: false,
        record: None,
        lines: false,
        allow_python: false,
    };
    let pack = args.pack(context)?;
    let provider = args.provider(context, &pack)?;
    let options = args.options(context, &pack)?;
    run_patiently(context, &pack, inputs, &[], &*provider, &options)
        .map_err(|error| failed(flow_id, &error))
}

/// Runs a flow and waits out pauses, because this command has no later retry.
fn run_patiently(
    context: &Context,
    pack: &LoadedPack,
    inputs: Map<String, Value>,
    sources: &[SourceText],
    provider: &dyn Provider,
    options: &RunOptions<'_>,
) -> Result<FlowOutcome, FlowError> {
    const PAUSES_MAX: usize = 10;
    const PAUSE_MAX: Duration = Duration::from_secs(120);
    for _ in 0..PAUSES_MAX {
        let ran = flow::run(pack, inputs.clone(), sources, provider, options);
        let pause = match &ran {
            Err(error) if error.class() == FlowErrorClass::Pause => error.retry_after(),
            _ => None,
        };
        match pause.filter(|pause| *pause <= PAUSE_MAX) {
            Some(pause) => {
                context
                    .ui
                    .talk(format!("waiting {} s: the provider asks for it", pause.as_secs_f64()));
                std::thread::sleep(pause);
            }
            None => return ran,
        }
    }
    flow::run(pack, inputs, sources, provider, options)
}

fn failed(flow_id: &str, error: &FlowError) -> Failure {
    let exit = match error.class() {
        FlowErrorClass::InvalidParams => Exit::Input,
        _ => Exit::Wrong,
    };
    Failure::new(exit, format!("{flow_id} gave nothing ({})", error.reason_code()))
        .because(&*error.problem)
}

fn report(
    context: &Context,
    pack: &LoadedPack,
    outcome: &FlowOutcome,
    metrics: &Map<String, Value>,
    show_prompts: bool,
) {
    if !context.ui.json {
        if show_prompts {
            show_calls(context, &outcome.calls);
        }
        context.ui.out(&outcome.summary.summary_text);
        for warning in &outcome.warnings {
            context.ui.talk(dim(&format!("warning: {warning}")));
        }
        return;
    }
    let mut outputs = serde_json::to_value(&outcome.summary).unwrap_or_default();
    outputs["structured"] = outcome.structured.clone();
    outputs["schema_id"] = json!(outcome.schema_id);
    outputs["model_generated"] = outcome.model_generated.into();
    outputs["quality"] = json!(outcome.quality);
    outputs["coverage"] = json!(outcome.coverage);
    outputs["evidence_refs"] = json!(outcome.evidence);
    if let Some(tree) = &outcome.hierarchy {
        outputs["hierarchy_version"] = flow::HIERARCHY_VERSION.into();
        outputs["hierarchy"] = json!(tree);
        outputs["node_count"] = tree.nodes.len().into();
        outputs["leaf_count"] = tree.leaf_count().into();
    }
    let record = pack.record();
    let mut report = json!({
        "flow_id": record.flow_id,
        "variant": record.variant,
        "outputs": outputs,
        "flow_outputs": outcome.outputs,
        "model": outcome.model,
        "prompt": {
            "prompt_hash": outcome.prompt_hash,
            "template_id": record.template_id(),
            "prompt_version": record.prompt_version(),
            "rendered_prompt_sha256": outcome.rendered_prompt_sha256,
            "engine": outcome.engine,
            "engine_version": outcome.engine_version,
        },
        "usage": outcome.usage,
        "warnings": outcome.warnings,
    });
    if !metrics.is_empty() {
        report["metrics"] = json!(metrics);
    }
    if show_prompts {
        report["calls"] = json!(outcome.calls);
    }
    context.ui.json(&report);
}

fn show_calls(context: &Context, calls: &[flow::CallRecord]) {
    for call in calls {
        context.ui.talk(bold(&format!("── {} (turn {}) ──", call.node, call.turn)));
        for message in &call.messages {
            context.ui.talk(bold(&format!("{}:", message.role.name())));
            context.ui.talk(&message.text);
        }
        context.ui.talk(bold("answer:"));
        context.ui.talk(&call.text);
    }
}

fn save(context: &Context, path: &Path, lines: &[String]) -> Result<(), Failure> {
    let mut text = lines.join("\n");
    text.push('\n');
    context.machine.disk.replace(path, text.as_bytes(), 0o640).map_err(|error| {
        Failure::new(Exit::Storage, format!("cannot write {}", path.display())).because(&error)
    })
}
