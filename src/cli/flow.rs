//! `flow`: runs packs outside the log, over one input or many lines, compares them, and writes a new pack.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, Subcommand};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::Context;
use super::compare::CompareArgs;
use super::data_rules::{GivenData, file_places};
use super::failure::{Exit, Failure};
use super::flow_batch::BatchArgs;
use super::flow_processes::start_processes;
use super::flow_runner::{
    FlowProviders, calls_at_once, failed, load_flow, no_provider, run_options, tell_warnings,
};
use super::given_input::{GivenInput, flat_row, given_params, without_mark};
use super::given_text::{GivenText, TextReader, holds_several, is_no_object_of_inputs, tell};
use super::home::refuse_own_folder;
use super::interrupt::{listen, stopped};
use super::settings::load_config;
use super::ui::{LiveAnswer, bold, dim};
use crate::config::Config;
use crate::contract::publish;
use crate::flow::context::Surroundings;
use crate::flow::{
    self, FlowError, FlowOutcome, FlowProblem, PackFacts, RunOptions, TEXT_FROM_SOURCE,
    is_name_of_text, scaffold,
};
use crate::model::Provider;
use crate::model::Recorder;
use crate::os::memory::use_small_pages;
use crate::work::isolation::alone::FlowAlone;
use crate::work::params::{by_person, for_data};

/// Run a flow pack, compare candidates, or write a new one
#[derive(Debug, Args)]
pub(crate) struct FlowArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(RunArgs),
    Batch(BatchArgs),
    Compare(CompareArgs),
    New(NewArgs),
}

/// Run one flow without a queue and without a log; needs no home
#[derive(Debug, Args)]
struct RunArgs {
    /// A registered flow, a folder with a flow, a flow.dag.yaml or a .prompty file
    flow_id: String,
    /// An input of the flow; inputs that are not given have their defaults
    #[arg(value_name = "INPUT=VALUE")]
    inputs: Vec<String>,
    /// A .json object of flow inputs, or the object itself; any other file is the text of the main
    /// input, and of a chat or an export the messages; `-` reads standard input
    #[arg(long, value_name = "FILE|JSON|-")]
    input: Option<String>,
    /// The variant of the flow
    #[arg(long)]
    variant: Option<String>,
    /// A parameter; a value that is valid JSON is read as JSON, else as text
    #[arg(long = "param", value_name = "KEY=VALUE")]
    params: Vec<String>,
    /// Provider that answers [default: as configured]
    #[arg(long)]
    provider: Option<String>,
    /// Show the conversations with the model
    #[arg(long)]
    show_prompts: bool,
    /// Write the answers of the model into this file, for the `recorded` provider
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print one line of outputs for each line of the input file, which is a JSON object of flow inputs; or
    /// for each item, mail or conversation of a file that has none
    #[arg(long, requires = "input")]
    lines: bool,
    /// Allow Python nodes of the pack to run
    #[arg(long)]
    allow_python: bool,
}

/// Write a small complete pack to start from
#[derive(Debug, Args)]
struct NewArgs {
    /// Id of the flow, such as `mail.digest.summarize.brief.v1`
    flow_id: String,
    /// The directory in which the folder is made
    #[arg(long, value_name = "DIR", default_value = ".")]
    into: PathBuf,
}

impl FlowArgs {
    pub(crate) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.action {
            Action::Run(args) => args.run(context),
            Action::Batch(args) => args.run(context),
            Action::Compare(args) => args.run(context),
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
            Failure::of_target(format!("cannot write {}", folder.display()), &error)
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
        self.record.iter().try_for_each(|path| refuse_own_folder(context, path))?;
        let config = load_config(context)?;
        let processes = start_processes(&config)?;
        let flow = load_flow(context, &self.flow_id, self.variant.as_deref(), &processes)?;
        let pack = flow.facts();
        let providers = FlowProviders::new(context, pack.record(), self.provider.as_deref())?;
        providers.usual()?;
        let options = self.options(&config, pack)?;
        let given = self.read(context, pack, &config)?;
        let data = given.data.said(&config);
        let options = RunOptions {
            python: options.python.clone().map(|python| for_data(by_person(python), &data)),
            ..options
        };
        let provider = providers.about(&data).map_err(|error| no_provider(&error))?;
        let recorder =
            self.record.as_ref().map(|path| (path, Recorder::new(Arc::clone(&provider))));
        let asked: &dyn Provider = match &recorder {
            Some((_, recorder)) => recorder,
            None => &*provider,
        };
        let exit = if self.lines {
            self.run_lines(context, &flow, asked, &options, given)
        } else {
            self.run_once(context, &flow, asked, &options, given)
        };
        if let Some((path, recorder)) = &recorder {
            save(context, path, &recorder.lines())?;
        }
        exit
    }

    fn options(&self, config: &Config, pack: &PackFacts) -> Result<RunOptions<'static>, Failure> {
        let options = run_options(config, pack.record(), &self.params, self.allow_python)?;
        Ok(RunOptions { keep_prompts: self.show_prompts, ..options })
    }

    /// The inputs that the arguments name.
    fn named_inputs(&self, pack: &PackFacts) -> Result<Map<String, Value>, Failure> {
        let names = || {
            let names: Vec<&str> = pack.inputs().iter().map(|input| input.name.as_str()).collect();
            match names.is_empty() {
                true => "the flow has no inputs".to_owned(),
                false => format!("the inputs of the flow are {}", names.join(", ")),
            }
        };
        let mut inputs = Map::new();
        for given in &self.inputs {
            let (name, value) = given.split_once('=').ok_or_else(|| {
                let what = format!("`{given}` does not name an input: write INPUT=VALUE");
                Failure::new(Exit::Usage, what).hint(names())
            })?;
            if !pack.inputs().iter().any(|input| input.name == name) {
                let what = format!("the flow has no input {name}");
                let known = pack.inputs().iter().map(|input| input.name.as_str());
                let near = super::names::nearest_of(name, known);
                let near = near.map(|near| format!("did you mean {near}?"));
                return Err(Failure::new(Exit::Usage, what).hint(near.unwrap_or_else(names)));
            }
            inputs.insert(name.to_owned(), value.into());
        }
        Ok(inputs)
    }

    /// Everything that the flow is about, before a provider is chosen.
    fn read(
        &self,
        context: &Context,
        pack: &PackFacts,
        config: &Config,
    ) -> Result<GivenRun, Failure> {
        let named = self.named_inputs(pack)?;
        let around = Surroundings {
            day: Some(context.machine.clock.now().day_in(config.timezone).to_string()),
            zone: Some(config.timezone),
            profile: config.profile.clone(),
            ..Surroundings::default()
        };
        let mut data = GivenData::default();
        let from = self.input.as_deref().or(self.lines.then_some("-")).map(GivenInput::of);
        if let Some(GivenInput::File(path)) = &from {
            data.places.extend(&file_places(context, path));
        }
        let lines = match from {
            Some(given) if self.lines => self.each_line(context, pack, &given, &named, config)?,
            None if named.is_empty() => vec![GivenLine::of_inputs(pack.samples())],
            None => vec![GivenLine::of_inputs(named)],
            Some(given) => vec![self.given(context, pack, &given, named, config)?],
        };
        for line in &lines {
            data.add_inputs(&line.inputs);
            line.text.context.add_places(&mut data.places);
            data.local_only |= line.text.context.is_local_only();
        }
        let around = Surroundings {
            private: publish::said_by_record(&given_params(&self.params)?) == Some(false)
                || !data.said(config).private.is_empty(),
            ..around
        };
        Ok(GivenRun { lines, around, data })
    }

    fn run_once(
        &self,
        context: &Context,
        flow: &FlowAlone,
        provider: &dyn Provider,
        options: &RunOptions<'_>,
        given: GivenRun,
    ) -> Result<Exit, Failure> {
        let GivenRun { mut lines, around, .. } = given;
        let GivenLine { inputs, text } = lines.pop().unwrap_or_default();
        let around = around_line(&around, &inputs, &text);
        let live = LiveAnswer::new(&context.ui);
        let options = &RunOptions { listener: Some(&live), ..options.around(&around) };
        let ran = flow.run(inputs, &text.texts, provider, options, &|| true);
        live.bar.finish_and_clear();
        let outcome = ran.map_err(|error| {
            if self.show_prompts {
                show_calls(context, &error.calls);
            }
            failed(&self.flow_id, &error)
        })?;
        let metrics = flow.aggregate(vec![outcome.for_aggregation.clone()], provider, options);
        // What the line gave is paid for, whatever becomes of the metrics.
        let (metrics, failure) = self.metrics(metrics);
        report(context, flow.facts(), &outcome, &metrics, (around.private, self.show_prompts));
        failure.map_or(Ok(Exit::Done), Err)
    }

    /// The metrics; none beside the failure where there is one.
    fn metrics(
        &self,
        aggregated: Result<Map<String, Value>, FlowProblem>,
    ) -> (Map<String, Value>, Option<Failure>) {
        match aggregated {
            Ok(metrics) => (metrics, None),
            Err(error) => {
                let what = format!("cannot aggregate the results of {}", self.flow_id);
                (Map::new(), Some(Failure::new(Exit::Wrong, what).because(&error)))
            }
        }
    }

    /// What `--input` holds: inputs, or a text for the main input. What is named on the command line goes first.
    fn given(
        &self,
        context: &Context,
        pack: &PackFacts,
        given: &GivenInput,
        named: Map<String, Value>,
        config: &Config,
    ) -> Result<GivenLine, Failure> {
        let (name, bytes) = (given.name(), given.bytes(context)?);
        let is_pasted = matches!(given, GivenInput::Json(_));
        let members = match serde_json::from_slice(without_mark(&bytes)) {
            Ok(Value::Object(members)) => Some(members),
            _ => None,
        };
        let are_inputs = |members: &Map<String, Value>| {
            is_pasted
                || are_all_inputs(pack, members)
                || pack.is_imported && gives_inputs(pack, members)
                || !is_no_object_of_inputs(&name, &bytes)
        };
        let mut inputs = match members {
            Some(members) if are_inputs(&members) => members,
            None if given.is_json() && !is_no_object_of_inputs(&name, &bytes) => {
                given.object(context)?
            }
            _ => {
                let now = context.machine.clock.now();
                let read = TextReader::new(context, config, now).whole(&name, &bytes);
                let (text, told) = read.map_err(|why| given.unreadable().hint(why))?;
                tell(context, &name, &told);
                return Ok(GivenLine { inputs: named, text });
            }
        };
        inputs.extend(named);
        if inputs.is_empty() {
            inputs = pack.samples();
        }
        Ok(GivenLine::of_inputs(inputs))
    }

    /// What each line holds; or each conversation, mail or item of a file of which no line names an input.
    fn each_line(
        &self,
        context: &Context,
        pack: &PackFacts,
        given: &GivenInput,
        named: &Map<String, Value>,
        config: &Config,
    ) -> Result<Vec<GivenLine>, Failure> {
        let (name, bytes) = (given.name(), given.bytes(context)?);
        let lines = given.lines_of(&bytes);
        let is_text = match &lines {
            Ok(lines) => {
                // A member of an export may have the name of an input.
                let is_export = !pack.is_imported
                    && !lines.iter().all(|line| are_all_inputs(pack, line))
                    && is_no_object_of_inputs(&name, &bytes);
                let gives_none = !lines.iter().any(|line| gives_inputs(pack, line));
                !lines.is_empty() && (is_export || gives_none)
            }
            Err(_) => holds_several(&name, &bytes),
        };
        if !is_text {
            return Ok(lines?.into_iter().map(|line| GivenLine::of_line(line, named)).collect());
        }
        let now = context.machine.clock.now();
        let read = TextReader::new(context, config, now).each(&name, &bytes);
        let (texts, told) = read.map_err(|why| given.unreadable().hint(why))?;
        tell(context, &name, &told);
        let line = |text| GivenLine { inputs: named.clone(), text };
        Ok(texts.into_iter().map(line).collect())
    }

    fn run_lines(
        &self,
        context: &Context,
        flow: &FlowAlone,
        provider: &dyn Provider,
        options: &RunOptions<'_>,
        given: GivenRun,
    ) -> Result<Exit, Failure> {
        let GivenRun { lines, around, .. } = given;
        let around = &around;
        let stop = listen(context, "lines under way end first", || ())?;
        let at_once = calls_at_once(&load_config(context)?, provider);
        let bar = context.ui.progress("running", lines.len() as u64);
        let next = AtomicUsize::new(0);
        use_small_pages();
        let results: Vec<Mutex<Option<LineResult>>> =
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
                        let around = around_line(around, &line.inputs, &line.text);
                        let options = options.around(&around);
                        let (inputs, texts) = (line.inputs.clone(), &line.text.texts);
                        let ran = flow.run(inputs, texts, provider, &options, &|| true);
                        *results[index].lock() = Some(LineResult::of(index, ran));
                        bar.inc(1);
                    }
                });
            }
        });
        bar.finish_and_clear();
        let (mut values, mut errors) = (Vec::new(), 0);
        let mut warnings = BTreeMap::<String, usize>::new();
        for result in results.into_iter().filter_map(Mutex::into_inner) {
            context.ui.json(&result.row);
            result.warnings.into_iter().for_each(|it| *warnings.entry(it).or_default() += 1);
            match result.for_aggregation {
                Some(of_line) => values.push(of_line),
                None => errors += 1,
            }
        }
        let done = values.len();
        let (metrics, failure) = self.metrics(flow.aggregate(values, provider, options));
        if !metrics.is_empty() {
            context.ui.json(&json!({"metrics": metrics}));
        }
        tell_warnings(context, &warnings);
        context.ui.talk(format!("{done} done, {errors} failed"));
        let ran = done + errors;
        if ran < lines.len() {
            let (all, rest) = (crate::cli::ui::count(lines.len(), "line"), ran);
            let next = format!("run it again with the lines from line_number {rest} on");
            return Err(stopped(format!("{ran} of {all} were run, and are printed"), next));
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        Ok(if errors > 0 { Exit::Wrong } else { Exit::Done })
    }
}

/// What a run is about.
struct GivenRun {
    /// What each line gives; one without `--lines`.
    lines: Vec<GivenLine>,
    around: Surroundings,
    data: GivenData,
}

/// What one run is given: inputs by their names, and a text for the main input.
#[derive(Debug, Clone, Default)]
struct GivenLine {
    inputs: Map<String, Value>,
    text: GivenText,
}

impl GivenLine {
    fn of_inputs(inputs: Map<String, Value>) -> GivenLine {
        GivenLine { inputs, text: GivenText::default() }
    }

    /// What is named on the command line stands in for what a line leaves out.
    fn of_line(mut inputs: Map<String, Value>, named: &Map<String, Value>) -> GivenLine {
        for (name, value) in named {
            inputs.entry(name).or_insert_with(|| value.clone());
        }
        GivenLine::of_inputs(inputs)
    }
}

/// What is known around one line.
fn around_line(
    around: &Surroundings,
    inputs: &Map<String, Value>,
    text: &GivenText,
) -> Surroundings {
    let private = around.private || text.private || is_private(inputs);
    Surroundings { input: text.context.clone(), private, ..around.clone() }
}

fn is_input(pack: &PackFacts, name: &str) -> bool {
    pack.inputs().iter().any(|input| input.name == name)
}

/// Whether members are inputs of a flow and no record with a text: of a flow that is told of its sources, a record has
/// names in common, such as `title`.
fn gives_inputs(pack: &PackFacts, members: &Map<String, Value>) -> bool {
    let is_given = |name: &String| {
        let is_text = || pack.main_input() == Some(name.as_str()) || is_name_of_text(name);
        is_input(pack, name) && (pack.is_imported || is_text())
    };
    members.keys().any(is_given) || are_all_inputs(pack, members)
}

fn are_all_inputs(pack: &PackFacts, members: &Map<String, Value>) -> bool {
    members.keys().all(|name| is_input(pack, name))
}

/// Whether inputs, or the records in them, say that nothing of them is published.
fn is_private(inputs: &Map<String, Value>) -> bool {
    publish::said_within(&Value::Object(inputs.clone())) == Some(false)
}

/// What is kept of a line: its row, and where it did not fail, what aggregation nodes read.
struct LineResult {
    row: Value,
    for_aggregation: Option<Map<String, Value>>,
    warnings: Vec<String>,
}

impl LineResult {
    fn of(index: usize, ran: Result<FlowOutcome, FlowError>) -> LineResult {
        match ran {
            Ok(outcome) => LineResult {
                row: flat_row(index, &outcome.outputs),
                for_aggregation: Some(outcome.for_aggregation),
                warnings: outcome.warnings,
            },
            Err(error) => {
                let (reason, text) = (error.reason_code(), error.to_string());
                let row = json!({"line_number": index, "error": text, "reason_code": reason});
                LineResult { row, for_aggregation: None, warnings: Vec::new() }
            }
        }
    }
}

/// What a person reads of an outcome: the summary, where the pack says what its summary is. Of any other
/// flow the outputs, as the flow gave them: a text that stands in for a missing summary is no output.
fn shown(pack: &PackFacts, outcome: &FlowOutcome) -> String {
    let mut outputs = outcome.outputs.values();
    match (outputs.next(), outputs.next()) {
        _ if !pack.is_imported => outcome.summary.summary_text.clone(),
        (Some(only), None) => alone(only),
        _ => all_named(&outcome.outputs),
    }
}

/// The only output: the members of an object each behind its name, the items of a list a line each.
fn alone(value: &Value) -> String {
    match value {
        Value::Object(members) if !members.is_empty() => all_named(members),
        Value::Array(items) if !items.is_empty() => {
            items.iter().map(text_or_json).collect::<Vec<_>>().join("\n")
        }
        _ => text_or_json(value),
    }
}

fn all_named(values: &Map<String, Value>) -> String {
    values.iter().map(named).collect::<Vec<_>>().join("\n")
}

/// One of several outputs or members; a text of several lines stands below its name.
fn named((name, value): (&String, &Value)) -> String {
    let text = match value.as_str() {
        Some("") => "\"\"".to_owned(),
        _ => text_or_json(value),
    };
    let between = if text.contains('\n') { "\n" } else { " " };
    format!("{}{between}{text}", bold(&format!("{name}:")))
}

fn text_or_json(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), |text| text.trim_end().to_owned())
}

fn report(
    context: &Context,
    pack: &PackFacts,
    outcome: &FlowOutcome,
    metrics: &Map<String, Value>,
    (private, show_prompts): (bool, bool),
) {
    if !context.ui.json {
        if show_prompts {
            show_calls(context, &outcome.calls);
        }
        context.ui.out(shown(pack, outcome));
        let is_told = |warning: &&String| !pack.is_imported || *warning != TEXT_FROM_SOURCE;
        for warning in outcome.warnings.iter().filter(is_told) {
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
        "private": private,
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
        report["calls"] = json!(asked(&outcome.calls).collect::<Vec<_>>());
    }
    context.ui.json(&report);
}

/// The calls whose questions a person may see.
fn asked(calls: &[flow::CallRecord]) -> impl Iterator<Item = &flow::CallRecord> {
    calls.iter().filter(|call| !call.messages.is_empty())
}

fn show_calls(context: &Context, calls: &[flow::CallRecord]) {
    for call in asked(calls) {
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
    context
        .machine
        .disk
        .replace(path, text.as_bytes(), 0o640)
        .map_err(|error| Failure::of_target(format!("cannot write {}", path.display()), &error))
}
