//! Runs all inputs with the answers so far: outputs where an input is finished, questions where it is not.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::folder::{AskedQuestion, BatchFolder, StoredInput, WrittenFiles};
use super::results::ImportedAnswers;
use crate::cli::Context;
use crate::cli::failure::{Exit, Failure};
use crate::cli::flow_runner::attempt_limit;
use crate::cli::given_text::TextReader;
use crate::config::Config;
use crate::contract::publish;
use crate::flow::context::Surroundings;
use crate::flow::{FlowError, FlowOutcome, FlowProblem, RunOptions};
use crate::model::{KeptQuestion, Provider, QuestionKeeper};
use crate::work::params::{by_person, python_of, python_settings};

enum LineEnd {
    Done { row: Value, for_aggregation: Map<String, Value>, warnings: Vec<String> },
    Waits,
    Failed(Value),
}

impl LineEnd {
    /// The end of the aggregation nodes.
    fn aggregated(row: Value) -> LineEnd {
        LineEnd::Done { row, for_aggregation: Map::new(), warnings: Vec::new() }
    }
}

struct LineRun {
    end: LineEnd,
    met: BTreeMap<String, KeptQuestion>,
}

/// One run of all inputs.
pub(super) struct Round {
    lines: Vec<LineRun>,
    /// What aggregation nodes gave, when every input is finished.
    aggregated: Option<LineRun>,
}

impl Round {
    pub(super) fn run(
        context: &Context,
        folder: &BatchFolder,
        provider: &dyn Provider,
        config: &Config,
        allow_python: bool,
    ) -> Result<Round, Failure> {
        let options = RunOptions {
            params: folder.manifest.params.clone(),
            timeout: attempt_limit(config),
            python: python_of(config)
                .or_else(|| allow_python.then(|| python_settings(config)))
                .map(by_person),
            repair_turns: folder.manifest.repair_turns,
            ..RunOptions::default()
        };
        let mut answered: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for row in folder.asked.iter().filter(|row| folder.answers.contains_key(&row.custom_id)) {
            answered.entry(row.input).or_default().push(&row.custom_id);
        }
        let reader = TextReader::on(context, config, &folder.manifest.day);
        let runner = Runner { folder, provider, config, reader, options, answered };
        let bar = context.ui.progress("reading", folder.inputs.len() as u64);
        let mut lines = Vec::with_capacity(folder.inputs.len());
        for place in 0..folder.inputs.len() {
            lines.push(runner.line(place)?);
            bar.inc(1);
        }
        bar.finish_and_clear();
        let is_finished = lines.iter().all(|line| !matches!(line.end, LineEnd::Waits));
        let aggregated = match is_finished {
            true => Some(runner.aggregate(&lines)?),
            false => None,
        };
        Ok(Round { lines, aggregated })
    }

    pub(super) fn inputs(&self) -> usize {
        self.lines.len()
    }

    fn runs(&self) -> impl Iterator<Item = (usize, &LineRun)> {
        self.lines.iter().chain(&self.aggregated).enumerate()
    }

    /// Everything that was asked. An input that failed asks nothing more.
    pub(super) fn asked(&self) -> Vec<AskedQuestion> {
        let met = self.runs().flat_map(|(input, line)| {
            let waits = matches!(line.end, LineEnd::Waits);
            line.met.values().map(move |question| (input, question, waits))
        });
        met.map(|(input, question, waits)| {
            let line = question.line.clone().filter(|_| waits);
            AskedQuestion { input, question: KeptQuestion { line, ..question.clone() } }
        })
        .collect()
    }

    /// How many questions have no answer.
    pub(super) fn questions(&self) -> usize {
        self.asked().iter().filter(|asked| asked.question.line.is_some()).count()
    }

    /// Parameters that the questions do not have, because the server of the model does not take them.
    pub(super) fn left_out(&self) -> BTreeSet<String> {
        let asked = self.asked().into_iter().filter(|asked| asked.question.line.is_some());
        asked.flat_map(|asked| asked.question.left_out).collect()
    }

    pub(super) fn done(&self) -> usize {
        self.lines.iter().filter(|line| matches!(line.end, LineEnd::Done { .. })).count()
    }

    /// The inputs that failed for good, with their rows.
    pub(super) fn failed(&self) -> BTreeMap<usize, Value> {
        let failed = self.runs().filter_map(|(place, line)| match &line.end {
            LineEnd::Failed(row) => Some((place, row.clone())),
            _ => None,
        });
        failed.collect()
    }

    /// The rows of inputs that are finished, that failed, or whose question failed.
    pub(super) fn rows(
        &self,
        imported: &ImportedAnswers,
        written: &WrittenFiles,
    ) -> Vec<(usize, Value)> {
        let mut rows = Vec::new();
        for (place, line) in self.runs() {
            let failed = || line.met.keys().find_map(|name| imported.failed.get(name));
            match (&line.end, failed()) {
                (LineEnd::Done { row, .. }, _) if place < self.lines.len() => {
                    rows.push((place, row.clone()));
                }
                (LineEnd::Done { .. }, _) | (LineEnd::Waits, None) => {}
                (LineEnd::Failed(row), _) => rows.push((place, row.clone())),
                (LineEnd::Waits, Some(failed)) => {
                    let again = format!("; it stands again in {}", written.files.join(" "));
                    let error = failed.reason.clone() + &again;
                    rows.push((place, row_of_error(place, &error, failed.reason_code)));
                }
            }
        }
        rows
    }

    /// The warnings of finished inputs, with how many have each.
    pub(super) fn warnings(&self) -> BTreeMap<String, usize> {
        let mut counted = BTreeMap::new();
        for (_, line) in self.runs() {
            if let LineEnd::Done { warnings, .. } = &line.end {
                warnings.iter().for_each(|one| *counted.entry(one.clone()).or_default() += 1);
            }
        }
        counted
    }

    /// The metrics of aggregation nodes.
    pub(super) fn metrics(&self) -> Option<&Value> {
        match &self.aggregated.as_ref()?.end {
            LineEnd::Done { row, .. } => {
                Some(row).filter(|row| row.as_object().is_some_and(|o| !o.is_empty()))
            }
            _ => None,
        }
    }

    /// Why there is nothing to send.
    pub(super) fn without_questions(&self) -> Failure {
        match self.failed().into_values().next() {
            Some(row) => {
                let why = row["error"].as_str().unwrap_or_default();
                Failure::new(Exit::Wrong, format!("no input gives a question: {why}"))
            }
            None => Failure::new(Exit::Usage, "the flow asks no model for these inputs")
                .hint("`summarizer flow run` gives its outputs immediately"),
        }
    }
}

struct Runner<'a> {
    folder: &'a BatchFolder,
    provider: &'a dyn Provider,
    config: &'a Config,
    reader: TextReader,
    options: RunOptions<'a>,
    /// The questions with an answer, by input.
    answered: BTreeMap<usize, Vec<&'a str>>,
}

impl Runner<'_> {
    fn keeper(&self) -> Result<QuestionKeeper<'_>, Failure> {
        let keeper =
            QuestionKeeper::new(self.provider, &self.folder.manifest.model, &self.folder.answers);
        keeper.ok_or_else(|| Failure::new(Exit::Config, "the provider has no batches"))
    }

    fn line(&self, place: usize) -> Result<LineRun, Failure> {
        let keeper = self.keeper()?;
        let manifest = &self.folder.manifest;
        let mut around = Surroundings {
            day: Some(manifest.day.clone()),
            zone: Some(self.config.timezone),
            profile: manifest.profile.clone(),
            ..Surroundings::default()
        };
        let (inputs, sources) = match &self.folder.inputs[place] {
            StoredInput::Inputs(inputs) => (inputs.clone(), Vec::new()),
            StoredInput::File { name, bytes } => {
                let read = self.reader.whole(name, bytes);
                let (text, _) = read.map_err(|why| {
                    Failure::new(Exit::Input, format!("cannot read the stored {name}")).hint(why)
                })?;
                (around.input, around.private) = (text.context, text.private);
                (Map::new(), text.texts)
            }
        };
        around.private |= publish::said_within(&Value::Object(inputs.clone())) == Some(false);
        let options = self.options.around(&around);
        let ran = self.folder.flow.run(inputs, &sources, &keeper, &options, &|| true);
        let met = keeper.met();
        let end = self.end_of(place, ran, &met);
        Ok(LineRun { end, met })
    }

    fn end_of(
        &self,
        place: usize,
        ran: Result<FlowOutcome, FlowError>,
        met: &BTreeMap<String, KeptQuestion>,
    ) -> LineEnd {
        match ran {
            Ok(outcome) => LineEnd::Done {
                row: super::row_of(place, &outcome.outputs),
                warnings: outcome.warnings,
                for_aggregation: outcome.for_aggregation,
            },
            Err(error) if error.problem.waits_for_batch() => self.waits(place, met),
            Err(error) => {
                let mut row = row_of_error(place, &error.to_string(), error.reason_code());
                if let Some(StoredInput::File { name, .. }) = self.folder.inputs.get(place) {
                    row["input"] = name.as_str().into();
                }
                LineEnd::Failed(row)
            }
        }
    }

    /// With the same answers an input comes to the same questions, and then to further ones. One that
    /// does not would ask, and pay, in each round.
    fn waits(&self, place: usize, met: &BTreeMap<String, KeptQuestion>) -> LineEnd {
        let mut answered = self.answered.get(&place).into_iter().flatten();
        if answered.all(|id| met.contains_key(*id)) {
            return LineEnd::Waits;
        }
        let error = "its steps ask something else each time they run, so its questions have no answers; \
                     make its Python nodes give the same output for the same input, or use `summarizer flow run`";
        LineEnd::Failed(row_of_error(place, error, "model_error"))
    }

    fn aggregate(&self, lines: &[LineRun]) -> Result<LineRun, Failure> {
        let values = lines.iter().filter_map(|line| match &line.end {
            LineEnd::Done { for_aggregation, .. } => Some(for_aggregation.clone()),
            _ => None,
        });
        let keeper = self.keeper()?;
        let ran = self.folder.flow.aggregate(values.collect(), &keeper, &self.options);
        let met = keeper.met();
        let place = lines.len();
        let end = match ran {
            Ok(metrics) => LineEnd::aggregated(Value::Object(metrics)),
            Err(problem) if problem.waits_for_batch() => self.waits(place, &met),
            Err(problem) => LineEnd::Failed(failed_aggregation(&problem)),
        };
        Ok(LineRun { end, met })
    }
}

fn failed_aggregation(problem: &FlowProblem) -> Value {
    json!({"metrics": {}, "error": problem.to_string()})
}

fn row_of_error(place: usize, error: &str, reason_code: &str) -> Value {
    json!({"line_number": place, "error": error, "reason_code": reason_code})
}
