//! `flow`: runs one pack outside the log, over one input or many lines, and writes a new pack.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::{Args, Subcommand};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::Context;
use super::failure::{Exit, Failure};
use super::flow_runner::{calls_at_once, failed, load_pack, provider_for, run_patiently};
use super::interrupt::{listen, stopped};
use super::settings::load_config;
use super::ui::{LiveAnswer, bold, dim};
use crate::config::Config;
use crate::flow::context::Surroundings;
use crate::flow::{self, FlowError, FlowOutcome, LoadedPack, RunOptions, scaffold};
use crate::markup::document;
use crate::model::Recorder;
use crate::model::{Provider, SourceText};
use crate::upstream::loose;
use crate::work::params::{python_of, python_settings};

/// Longest input file.
const INPUT_BYTES_MAX: u64 = 256 << 20;

/// Run a flow pack, or write a new one
#[derive(Debug, Args)]
pub(crate) struct FlowArgs {
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
        let pack = load_pack(context, &self.flow_id, self.variant.as_deref())?;
        let provider = provider_for(context, &pack, self.provider.as_deref())?;
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
            python: python_of(&config)
                .or_else(|| self.allow_python.then(|| python_settings(&config))),
            repair_turns: config.repair_turns,
            keep_prompts: self.show_prompts,
            ..RunOptions::default()
        })
    }

    fn unreadable(&self) -> Failure {
        Failure::new(Exit::Input, format!("cannot read {}", self.input.display()))
    }

    fn read_bytes(&self, context: &Context) -> Result<Vec<u8>, Failure> {
        let disk = &*context.machine.disk;
        match disk.stat(&self.input) {
            Ok(Some(stat)) if stat.len > INPUT_BYTES_MAX => {
                let hint = format!("it has more than {INPUT_BYTES_MAX} bytes");
                return Err(self.unreadable().hint(hint));
            }
            Ok(Some(_)) => {}
            Ok(None) => return Err(self.unreadable().hint("there is no such file")),
            Err(error) => return Err(self.unreadable().because(&error)),
        }
        disk.read(&self.input).map_err(|error| self.unreadable().because(&error))
    }

    fn read_input(&self, context: &Context) -> Result<String, Failure> {
        let bytes = self.read_bytes(context)?;
        String::from_utf8(bytes).map_err(|error| self.unreadable().because(&error))
    }

    /// The day that the parameters name, else today.
    fn day(&self, context: &Context, config: &Config) -> String {
        let named = self.params.iter().find_map(|param| param.strip_prefix("day="));
        let today = || context.machine.clock.now().day_in(config.timezone).to_string();
        named.map_or_else(today, str::to_owned)
    }

    fn run_once(
        &self,
        context: &Context,
        pack: &LoadedPack,
        provider: &dyn Provider,
        options: &RunOptions<'_>,
    ) -> Result<Exit, Failure> {
        let is_json = self.input.extension().is_some_and(|extension| extension == "json");
        let name = self.input.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let config = load_config(context)?;
        let mut around = Surroundings {
            day: Some(self.day(context, &config)),
            zone: Some(config.timezone),
            profile: config.profile.clone(),
            ..Surroundings::default()
        };
        let (inputs, sources) = if is_json {
            (self.object(&self.read_input(context)?, "the input")?, Vec::new())
        } else if document::has_known_name(&name) {
            let bytes = self.read_bytes(context)?;
            let file = loose::read(&name, &bytes, config.timezone)
                .map_err(|why| self.unreadable().hint(why))?;
            around.input = file.context;
            let texts = file.texts.into_iter().map(|(id, text)| SourceText { id, text });
            (Map::new(), texts.collect())
        } else {
            let text = self.read_input(context)?;
            let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
            let text = text.replace("\r\n", "\n").replace('\r', "\n");
            (Map::new(), vec![SourceText { id: name, text }])
        };
        let live = LiveAnswer::new(&context.ui);
        let options = &RunOptions { listener: Some(&live), ..options.around(&around) };
        let ran = run_patiently(context, pack, inputs, &sources, provider, options);
        live.bar.finish_and_clear();
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
        let stop = listen(context, "lines under way end first", || ())?;
        let at_once = calls_at_once(&load_config(context)?, provider);
        let bar = context.ui.progress("running", lines.len() as u64);
        let next = AtomicUsize::new(0);
        let results: Vec<Mutex<Option<Result<FlowOutcome, FlowError>>>> =
            lines.iter().map(|_| Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for _ in 0..at_once.min(lines.len()) {
                scope.spawn(|| {
                    loop {
                        if stop.is_raised() {
                            return;
                        }
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
                    context.ui.json(&flat_row(index, &outcome.outputs));
                    outcomes.push(outcome);
                }
                Some(Err(error)) => {
                    errors += 1;
                    let (reason, text) = (error.reason_code(), error.to_string());
                    context
                        .ui
                        .json(&json!({"line_number": index, "error": text, "reason_code": reason}));
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
        let ran = outcomes.len() + errors;
        if ran < lines.len() {
            let (all, rest) = (crate::cli::ui::count(lines.len(), "line"), ran);
            let next = format!("run it again with the lines from line_number {rest} on");
            return Err(stopped(format!("{ran} of {all} were run, and are printed"), next));
        }
        Ok(if errors > 0 { Exit::Wrong } else { Exit::Done })
    }
}

/// The outputs of a line with its number, counted from 0, as readers of PromptFlow results expect.
fn flat_row(index: usize, outputs: &Map<String, Value>) -> Value {
    let mut row = Map::from_iter([("line_number".to_owned(), index.into())]);
    row.extend(outputs.iter().map(|(name, value)| (name.clone(), value.clone())));
    Value::Object(row)
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
