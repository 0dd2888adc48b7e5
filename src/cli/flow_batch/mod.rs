//! `flow batch`: the questions of a flow as a file that a person sends as a batch, and the way back.
//!
//! Contract. The folder holds everything that the way back needs: flow, inputs, parameters, day and the
//! model as it was known. A file of answers is refused as a whole when a line is no answer to a question of
//! the folder. Importing a file twice changes nothing. What has no answer yet stands in a new file.
//!
//! See docs/adr/0115-batches-as-files.md.

mod folder;
mod results;
mod rounds;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use self::folder::{BatchFolder, BatchManifest, StoredInput};
use self::rounds::Round;
use super::Context;
use super::data_rules::{GivenData, file_places};
use super::failure::{Exit, Failure};
use super::flow_runner::{no_provider, pack_files, tell_warnings};
use super::given_input::{GivenInput, flat_row, given_params};
use super::given_text::{TextReader, is_no_object_of_inputs, tell};
use super::home::refuse_own_folder;
use super::settings::load_config;
use super::ui::{count, dim};
use crate::config::Config;
use crate::model::builtin::Builtin;
use crate::model::{KnownModel, Provider, Providers};
use std::sync::Arc;

/// Ask by files: write the questions of a flow as a batch, and read the answers days later
#[derive(Debug, Args)]
pub(super) struct BatchArgs {
    #[command(subcommand)]
    action: BatchAction,
}

#[derive(Debug, Subcommand)]
enum BatchAction {
    Export(BatchExportArgs),
    Import(BatchImportArgs),
}

/// Write the questions of a flow as a batch file for OpenAI or Anthropic
///
/// Nothing is sent. The folder gets questions-1.jsonl, which you send yourself, and everything that
/// `flow batch import` needs later. It holds your texts: only you can read it.
#[derive(Debug, Args)]
struct BatchExportArgs {
    /// A registered flow, a folder with a flow, a flow.dag.yaml or a .prompty file
    flow_id: String,
    /// A text or a .json object of flow inputs; repeat the option for more inputs. With --lines, one file
    /// with an object on each line
    #[arg(long, value_name = "FILE|JSON|-", required = true)]
    input: Vec<String>,
    /// The input file has one JSON object of flow inputs on each line
    #[arg(long)]
    lines: bool,
    /// A new folder for the questions and for the files that the import needs
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// The variant of the flow
    #[arg(long)]
    variant: Option<String>,
    /// A parameter; a value that is valid JSON is read as JSON, else as text
    #[arg(long = "param", value_name = "KEY=VALUE")]
    params: Vec<String>,
    /// The provider that decides the model and the format of the file [default: as configured]
    #[arg(long)]
    provider: Option<String>,
    /// Let Python nodes of the pack run
    #[arg(long)]
    allow_python: bool,
}

/// Read the answers of a batch: print outputs, and write the open questions
///
/// Prints one line of outputs for each finished input, as `flow run --lines` does. The next questions of a
/// flow with several steps, and the questions that failed, are written into a new file. When a file is
/// imported again, nothing changes.
#[derive(Debug, Args)]
struct BatchImportArgs {
    /// The folder of the export
    folder: PathBuf,
    /// Files of answers: with OpenAI the output file and the error file, with Anthropic the results
    #[arg(value_name = "FILE")]
    answers: Vec<PathBuf>,
    /// Let Python nodes of the pack run
    #[arg(long)]
    allow_python: bool,
}

impl BatchArgs {
    pub(super) fn run(&self, context: &Context) -> Result<Exit, Failure> {
        match &self.action {
            BatchAction::Export(args) => args.run(context),
            BatchAction::Import(args) => args.run(context),
        }
    }
}

/// The provider that the questions are for.
fn provider_of(
    context: &Context,
    config: &Config,
    (flow_id, variant): (&str, Option<&str>),
    asked_for: Option<&str>,
    data: &GivenData,
) -> Result<(String, Arc<dyn Provider>), Failure> {
    let data = data.said(config);
    let found = Providers::new(config, Arc::new(Builtin), &context.machine)
        .and_then(|providers| providers.for_file(flow_id, variant, asked_for, &data));
    let (name, provider) = found.map_err(|error| no_provider(&error))?;
    if provider.batches().is_none() {
        let what = format!("the provider {name} has no batches");
        let hint =
            "choose one of kind openai or anthropic with --provider, or use `summarizer flow run`";
        return Err(Failure::new(Exit::Config, what).hint(hint));
    }
    Ok((name, provider))
}

impl BatchExportArgs {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        refuse_own_folder(context, &self.into)?;
        let config = load_config(context)?;
        let (record, files) = pack_files(context, &self.flow_id, self.variant.as_deref())?;
        let (flow_id, variant) = (record.flow_id.clone(), record.variant.clone());
        let flow = (flow_id.as_str(), variant.as_deref());
        let inputs = self.inputs(context)?;
        let data = self.data(context, &config, &inputs)?;
        let (name, provider) =
            provider_of(context, &config, flow, self.provider.as_deref(), &data)?;
        let mut params = config.flow_params(&flow_id, variant.as_deref());
        params.extend(given_params(&self.params)?);
        let manifest = BatchManifest {
            schema_version: folder::SCHEMA.to_owned(),
            model: KnownModel::of(&*provider),
            asked_for: self.provider.clone(),
            provider: name,
            record,
            params,
            repair_turns: config.repair_turns,
            day: context.machine.clock.now().day_in(config.timezone).to_string(),
            timezone: config.timezone.to_string(),
            profile: config.profile.clone(),
            dialects: Vec::new(),
            round: 0,
            open: Vec::new(),
        };
        let folder = BatchFolder::create(context, &self.into, manifest, &files, inputs)?;
        let round = match Round::run(context, &folder, &*provider, &config, self.allow_python) {
            Ok(round) if round.questions() > 0 => round,
            // No question is to be sent, so no answer will come back.
            other => {
                let _ = context.machine.disk.remove_dir_all(&self.into);
                return Err(other.map_or_else(|failure| failure, |round| round.without_questions()));
            }
        };
        let failed = round.failed();
        let written = folder.finish(context, round.asked())?;
        for row in failed.values() {
            context.ui.talk(format!("cannot ask: {row}"));
        }
        tell_left_out(context, &round);
        let (questions, inputs) = (written.questions, round.inputs());
        if context.ui.json {
            context.ui.json(&json!({
                "folder": self.into, "files": written.files, "questions": questions,
                "inputs": inputs, "failed": failed.keys().collect::<Vec<_>>(),
            }));
        } else {
            written.files.iter().for_each(|file| context.ui.out(file));
            let what = count(questions, "question");
            context.ui.talk(format!("{what} for {}; nothing was sent", count(inputs, "input")));
            context.ui.talk(format!(
                "then: summarizer flow batch import {} FILE_OF_ANSWERS",
                self.into.display()
            ));
        }
        Ok(if failed.is_empty() { Exit::Done } else { Exit::Wrong })
    }

    /// What rules about data may name the inputs by.
    fn data(
        &self,
        context: &Context,
        config: &Config,
        inputs: &[StoredInput],
    ) -> Result<GivenData, Failure> {
        let now = context.machine.clock.now();
        let mut data = data_of(inputs, &TextReader::new(context, config, now));
        for given in &self.input {
            if let GivenInput::File(path) = GivenInput::of(given) {
                data.places.extend(&file_places(context, &path));
            }
        }
        Ok(data)
    }

    fn inputs(&self, context: &Context) -> Result<Vec<StoredInput>, Failure> {
        if self.lines {
            let [given] = self.input.as_slice() else {
                return Err(Failure::new(Exit::Usage, "--lines takes one --input"));
            };
            let lines = GivenInput::of(given).lines(context)?;
            if lines.is_empty() {
                return Err(Failure::new(Exit::Input, format!("{given} has no lines")));
            }
            return Ok(lines.into_iter().map(StoredInput::Inputs).collect());
        }
        let config = load_config(context)?;
        let reader = TextReader::new(context, &config, context.machine.clock.now());
        let one = |given: &String| {
            let given = GivenInput::of(given);
            let (name, bytes) = (given.name(), given.bytes(context)?);
            let is_pasted = matches!(given, GivenInput::Json(_));
            if is_pasted || given.is_json() && !is_no_object_of_inputs(&name, &bytes) {
                return Ok(StoredInput::Inputs(given.object(context)?));
            }
            let (_, told) =
                reader.whole(&name, &bytes).map_err(|why| given.unreadable().hint(why))?;
            tell(context, &name, &told);
            Ok(StoredInput::File { name, bytes })
        };
        self.input.iter().map(one).collect()
    }
}

impl BatchImportArgs {
    fn run(&self, context: &Context) -> Result<Exit, Failure> {
        let mut folder = BatchFolder::open(context, &self.folder)?;
        let mut config = load_config(context)?;
        let manifest = &folder.manifest;
        config.timezone = manifest.timezone.parse().unwrap_or(config.timezone);
        let flow = (manifest.record.flow_id.as_str(), manifest.record.variant.as_deref());
        let asked_for = manifest.asked_for.as_deref();
        let reader = TextReader::on(context, &config, &folder.manifest.day);
        let data = data_of(&folder.inputs, &reader);
        let (name, provider) = provider_of(context, &config, flow, asked_for, &data)?;
        let (now, before) = (provider.identity(), &manifest.model.identity);
        if name != manifest.provider || now.model_name != before.model_name {
            let what = format!(
                "the questions are for the provider {} with the model {}, and the settings say {name} \
                 with {}",
                manifest.provider, before.model_name, now.model_name
            );
            let hint = "restore the old settings, or export again; imported answers stay";
            return Err(Failure::new(Exit::Config, what).hint(hint));
        }
        folder.recall(&*provider);
        let imported = results::read(context, &folder, &*provider, &self.answers)?;
        if let Some(api) = provider.batches() {
            folder.learn(api);
        }
        folder.keep(context, &imported.answers)?;
        let round = Round::run(context, &folder, &*provider, &config, self.allow_python)?;
        let written = folder.finish(context, round.asked())?;
        let mut rows = round.rows(&imported, &written);
        rows.sort_by_key(|(line, _)| *line);
        rows.iter().for_each(|(_, row)| context.ui.json(row));
        if let Some(metrics) = round.metrics() {
            context.ui.json(&json!({"metrics": metrics}));
        }
        let (done, failed) = (round.done(), rows.len() - round.done());
        let of_inputs = rows.iter().filter(|(place, _)| *place < round.inputs()).count();
        let waiting = round.inputs() - of_inputs;
        let left = written.questions;
        if context.ui.json {
            context.ui.json(&json!({"batch": {
                "inputs": round.inputs(), "done": done, "failed": failed, "waiting": waiting,
                "answers": imported.answers.len(), "questions": left, "files": written.files,
            }}));
        }
        tell_warnings(context, &round.warnings());
        context.ui.talk(format!("{done} done, {failed} failed, {waiting} with further questions"));
        if written.is_new {
            tell_left_out(context, &round);
        }
        if left > 0 {
            let files = written.files.join(" ");
            let to_send = count(left, "question");
            context.ui.talk(match written.is_new {
                true => format!("{to_send} to send: {files}"),
                false => format!("{to_send} without an answer, as before: {files}"),
            });
        }
        let is_done = failed == 0 && left == 0 && waiting == 0;
        Ok(if is_done { Exit::Done } else { Exit::Wrong })
    }
}

/// Names the parameters that the new questions do not have.
fn tell_left_out(context: &Context, round: &Round) {
    let names = round.left_out();
    if !names.is_empty() {
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        let why = "the server of the model does not take it";
        context.ui.talk(dim(&format!("warning: not in the questions, because {why}: {names}")));
    }
}

/// What the inputs themselves say.
fn data_of(inputs: &[StoredInput], reader: &TextReader) -> GivenData {
    let mut data = GivenData::default();
    for input in inputs {
        match input {
            StoredInput::Inputs(inputs) => data.add_inputs(inputs),
            StoredInput::File { name, bytes } => {
                if let Ok((text, _)) = reader.whole(name, bytes) {
                    text.context.add_places(&mut data.places);
                    data.local_only |= text.context.is_local_only();
                }
            }
        }
    }
    data
}

/// The row of a finished input.
fn row_of(line: usize, outputs: &Map<String, Value>) -> Value {
    flat_row(line, outputs)
}
