//! The folder of a batch: everything between the export and the last import.
//!
//! Files are replaced as a whole, answers before the questions that follow from them. After a crash the
//! same import does the rest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::cli::Context;
use crate::cli::failure::{Exit, Failure};
use crate::cli::flow_processes::start_processes;
use crate::cli::flow_runner::{load_files, unusable};
use crate::cli::settings::load_config;
use crate::facts::dialect::{Dialect, KEPT_FOR_MS, LearnedDialect};
use crate::model::{BatchApi, KeptQuestion, KnownModel, ModelIdentity, ModelReply, Provider};
use crate::os::{DiskFile, Open};
use crate::registry::{FlowPackRecord, PackFiles};
use crate::work::isolation::alone::FlowAlone;

pub(super) const SCHEMA: &str = "flow_batch.v1";
const MANIFEST: &str = "batch.json";
const INPUTS: &str = "inputs.jsonl";
const ASKED: &str = "asked.jsonl";
const ANSWERS: &str = "answers.jsonl";
const FLOW: &str = "flow";
const TEXTS: &str = "texts";
/// Only the person who exports reads the files: they hold texts.
const MODE: u32 = 0o600;
/// Most questions and bytes of one file. OpenAI takes 50,000 and 200 MB, Anthropic 100,000 and 256 MB.
const QUESTIONS_MAX: usize = 50_000;
const BYTES_MAX: usize = 190_000_000;

/// What the way back needs, beside the texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct BatchManifest {
    pub schema_version: String,
    pub record: FlowPackRecord,
    pub provider: String,
    /// The provider of `--provider`.
    pub asked_for: Option<String>,
    pub model: KnownModel,
    pub params: Map<String, Value>,
    pub repair_turns: u32,
    pub day: String,
    pub timezone: String,
    pub profile: BTreeMap<String, Value>,
    /// What answers said that the models refuse.
    #[serde(default)]
    pub dialects: Vec<LearnedDialect>,
    /// The number of the newest files of questions.
    pub round: u32,
    /// The questions in them.
    pub open: Vec<String>,
}

/// One input of the flow.
pub(super) enum StoredInput {
    Inputs(Map<String, Value>),
    /// A file whose text is the main input.
    File {
        name: String,
        bytes: Vec<u8>,
    },
}

/// A question, and the input that it is for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct AskedRow {
    pub custom_id: String,
    pub input: usize,
    pub identity: ModelIdentity,
    pub redacted: u64,
}

/// A question that an input came to.
pub(super) struct AskedQuestion {
    pub input: usize,
    pub question: KeptQuestion,
}

#[derive(Serialize, Deserialize)]
struct AnswerRow {
    custom_id: String,
    reply: ModelReply,
}

pub(super) struct BatchFolder {
    path: PathBuf,
    pub manifest: BatchManifest,
    pub flow: FlowAlone,
    pub inputs: Vec<StoredInput>,
    pub asked: Vec<AskedRow>,
    pub answers: BTreeMap<String, ModelReply>,
    /// Whether the questions have another form than in the newest files.
    has_learned: bool,
    /// Held while an import works, so that two at the same time do not forget each other's answers.
    _lock: Option<Arc<dyn DiskFile>>,
}

/// The files of questions that are to be sent.
pub(super) struct WrittenFiles {
    pub files: Vec<String>,
    pub questions: usize,
    /// False when they were there before.
    pub is_new: bool,
}

impl BatchFolder {
    /// A new folder. Without its manifest, which `finish` writes, it is no batch yet.
    pub(super) fn create(
        context: &Context,
        path: &Path,
        manifest: BatchManifest,
        files: &PackFiles,
        inputs: Vec<StoredInput>,
    ) -> Result<BatchFolder, Failure> {
        let disk = &*context.machine.disk;
        if matches!(disk.stat(path), Ok(Some(_))) {
            let what = format!("{} is already there", path.display());
            return Err(Failure::new(Exit::Usage, what).hint("name a new folder with --into"));
        }
        let write = || -> std::io::Result<()> {
            let flow = path.join(FLOW);
            for (name, bytes) in files.iter() {
                let file = flow.join(name);
                disk.create_dir_all(file.parent().unwrap_or(&flow))?;
                disk.replace(&file, bytes, MODE)?;
            }
            let mut rows = Vec::new();
            for (place, input) in inputs.iter().enumerate() {
                rows.push(match input {
                    StoredInput::Inputs(inputs) => json!({"inputs": inputs}),
                    StoredInput::File { name, bytes } => {
                        let texts = path.join(TEXTS);
                        disk.create_dir_all(&texts)?;
                        disk.replace(&texts.join(place.to_string()), bytes, MODE)?;
                        json!({"name": name, "text": place})
                    }
                });
            }
            disk.replace(&path.join(INPUTS), lines_of(&rows).as_bytes(), MODE)
        };
        write().map_err(|error| cannot("write", path).because(&error))?;
        let (asked, answers) = (Vec::new(), BTreeMap::new());
        let flow = load(context, path, &manifest.record)?;
        let path = path.to_owned();
        let has_learned = false;
        Ok(BatchFolder { path, manifest, flow, inputs, asked, answers, has_learned, _lock: None })
    }

    pub(super) fn open(context: &Context, path: &Path) -> Result<BatchFolder, Failure> {
        let disk = &*context.machine.disk;
        let file = path.join(MANIFEST);
        let found = disk.stat(&file).map_err(|e| cannot("read", &file).because(&e))?;
        if found.is_none() {
            let what = format!(
                "{} is not the folder of a batch export: it has no {MANIFEST}",
                path.display()
            );
            return Err(Failure::new(Exit::Input, what)
                .hint("`summarizer flow batch export FLOW --input FILE --into DIR` makes one"));
        }
        // The inputs are the one file that no import replaces.
        let file = path.join(INPUTS);
        let lock = disk.open(&file, Open::Read).and_then(|lock| lock.lock().map(|()| lock));
        let lock = lock.map_err(|e| cannot("read", &file).because(&e))?;
        let file = path.join(MANIFEST);
        let bytes = disk.read(&file).map_err(|e| cannot("read", &file).because(&e))?;
        let manifest: BatchManifest =
            serde_json::from_slice(&bytes).map_err(|e| cannot("read", &file).because(&e))?;
        if manifest.schema_version != SCHEMA {
            let what =
                format!("{} is of another version: {}", file.display(), manifest.schema_version);
            return Err(Failure::new(Exit::Input, what));
        }
        let mut inputs = Vec::new();
        for row in rows::<Value>(context, &path.join(INPUTS))? {
            inputs.push(match (row["inputs"].as_object(), row["text"].as_u64()) {
                (Some(inputs), _) => StoredInput::Inputs(inputs.clone()),
                (None, place) => {
                    let name = row["name"].as_str().unwrap_or_default().to_owned();
                    let file = path.join(TEXTS).join(place.unwrap_or_default().to_string());
                    let bytes = disk.read(&file).map_err(|e| cannot("read", &file).because(&e))?;
                    StoredInput::File { name, bytes }
                }
            });
        }
        let answers = rows::<AnswerRow>(context, &path.join(ANSWERS))?;
        Ok(BatchFolder {
            flow: load(context, path, &manifest.record)?,
            asked: rows(context, &path.join(ASKED))?,
            answers: answers.into_iter().map(|row| (row.custom_id, row.reply)).collect(),
            path: path.to_owned(),
            manifest,
            inputs,
            has_learned: false,
            _lock: Some(lock),
        })
    }

    /// Speaks with the models as they were found to understand.
    pub(super) fn recall(&self, provider: &dyn Provider) {
        let kept = Duration::from_millis(KEPT_FOR_MS.unsigned_abs());
        self.manifest.dialects.iter().for_each(|dialect| provider.recall(dialect, kept));
    }

    /// Remembers what the answers said of the models.
    pub(super) fn learn(&mut self, api: &dyn BatchApi) {
        let models: BTreeSet<&str> =
            self.asked.iter().map(|row| row.identity.model_name.as_str()).collect();
        let known = models.into_iter().map(|model| api.dialect(model));
        let known = known.filter(|learned| learned.dialect != Dialect::default()).collect();
        self.has_learned = self.manifest.dialects != known;
        self.manifest.dialects = known;
    }

    /// Keeps the answers of files.
    pub(super) fn keep(
        &mut self,
        context: &Context,
        answers: &BTreeMap<String, ModelReply>,
    ) -> Result<(), Failure> {
        let before = self.answers.len();
        self.answers.extend(answers.clone());
        if self.answers.len() == before {
            return Ok(());
        }
        let row = |(id, reply): (&String, &ModelReply)| AnswerRow {
            custom_id: id.clone(),
            reply: reply.clone(),
        };
        let rows: Vec<AnswerRow> = self.answers.iter().map(row).collect();
        self.write(context, ANSWERS, &lines_of(&rows))
    }

    /// Writes the questions that have no answer, unless the newest files hold exactly those.
    pub(super) fn finish(
        &self,
        context: &Context,
        asked: Vec<AskedQuestion>,
    ) -> Result<WrittenFiles, Failure> {
        let mut rows = self.asked.clone();
        let known: BTreeSet<(&str, usize)> =
            self.asked.iter().map(|row| (row.custom_id.as_str(), row.input)).collect();
        let mut lines = BTreeMap::new();
        for AskedQuestion { input, question } in asked {
            if !known.contains(&(question.name.as_str(), input)) {
                rows.push(AskedRow {
                    custom_id: question.name.clone(),
                    input,
                    identity: question.identity,
                    redacted: question.redacted,
                });
            }
            lines.extend(question.line.map(|line| (question.name, line)));
        }
        let (questions, open) = (lines.len(), lines.keys().cloned().collect::<Vec<_>>());
        let parts = parts(lines.into_values());
        let is_changed = open != self.manifest.open || self.has_learned;
        let is_new = is_changed && questions > 0;
        let round = self.manifest.round + u32::from(is_new);
        let name = |part: usize| match parts.len() {
            1 => format!("questions-{round}.jsonl"),
            _ => format!("questions-{round}-{}.jsonl", part + 1),
        };
        let names: Vec<String> = (0..parts.len()).map(name).collect();
        let files = names.iter().map(|name| self.path.join(name).display().to_string()).collect();
        if rows.len() > self.asked.len() || self.manifest.round == 0 {
            self.write(context, ASKED, &lines_of(&rows))?;
        }
        if is_new {
            for (name, part) in names.iter().zip(&parts) {
                self.write(context, name, part)?;
            }
        }
        if is_changed || self.manifest.round == 0 {
            let manifest = BatchManifest { round, open, ..self.manifest.clone() };
            let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
            self.write(context, MANIFEST, &format!("{text}\n"))?;
        }
        Ok(WrittenFiles { files, questions, is_new })
    }

    fn write(&self, context: &Context, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.path.join(name);
        let written = context.machine.disk.replace(&path, text.as_bytes(), MODE);
        written.map_err(|error| cannot("write", &path).because(&error))
    }
}

fn cannot(what: &str, path: &Path) -> Failure {
    Failure::new(Exit::Input, format!("cannot {what} {}", path.display()))
}

fn load(context: &Context, path: &Path, record: &FlowPackRecord) -> Result<FlowAlone, Failure> {
    let broken = |error: &(dyn std::error::Error + 'static)| unusable(&record.flow_id, error);
    let files = PackFiles::read(&*context.machine.disk, &path.join(FLOW));
    let files = files.map_err(|error| broken(&error))?;
    record.verify(&files).map_err(|error| broken(&error))?;
    load_files(context, record, &files, &start_processes(&load_config(context)?)?)
}

fn rows<T: DeserializeOwned>(context: &Context, path: &Path) -> Result<Vec<T>, Failure> {
    let found = context.machine.disk.read_if_present(path);
    let bytes = found.map_err(|error| cannot("read", path).because(&error))?.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line))
        .collect::<Result<_, _>>()
        .map_err(|error| cannot("read", path).because(&error))
}

fn lines_of<T: Serialize>(rows: &[T]) -> String {
    let lines = rows.iter().filter_map(|row| serde_json::to_string(row).ok());
    lines.map(|line| line + "\n").collect()
}

/// The lines as files that servers take.
fn parts(lines: impl Iterator<Item = Value>) -> Vec<String> {
    let (mut parts, mut count) = (Vec::<String>::new(), 0);
    for line in lines {
        let line = line.to_string();
        let fits = |part: &String| part.len() + line.len() < BYTES_MAX && count < QUESTIONS_MAX;
        if !parts.last().is_some_and(fits) {
            parts.push(String::new());
            count = 0;
        }
        count += 1;
        if let Some(part) = parts.last_mut() {
            part.push_str(&line);
            part.push('\n');
        }
    }
    parts
}
