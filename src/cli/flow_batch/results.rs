//! Files of answers, checked line by line before anything is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::folder::{AskedRow, BatchFolder};
use crate::cli::Context;
use crate::cli::failure::{Exit, Failure};
use crate::facts::dialect::Dialect;
use crate::model::{AskedModel, BatchAnswer, BatchApi, ModelReply, Provider};

/// Longest file of answers.
const BYTES_MAX: u64 = 1 << 30;

/// What files of answers say.
#[derive(Default)]
pub(super) struct ImportedAnswers {
    pub answers: BTreeMap<String, ModelReply>,
    /// Questions that the files give no answer for, with the reason.
    pub failed: BTreeMap<String, FailedQuestion>,
}

pub(super) struct FailedQuestion {
    pub reason: String,
    pub reason_code: &'static str,
}

/// Reads all files. An error names the file and the line, and nothing of any file is kept.
pub(super) fn read(
    context: &Context,
    folder: &BatchFolder,
    provider: &dyn Provider,
    files: &[PathBuf],
) -> Result<ImportedAnswers, Failure> {
    let asked: BTreeMap<&str, &AskedRow> =
        folder.asked.iter().map(|row| (row.custom_id.as_str(), row)).collect();
    let mut imported = ImportedAnswers::default();
    let Some(api) = provider.batches() else { return Ok(imported) };
    let known = Known {
        dialects: folder
            .asked
            .iter()
            .map(|row| row.identity.model_name.as_str())
            .map(|model| (model, api.dialect(model).dialect))
            .collect(),
        asked,
    };
    for file in files {
        let text = text_of(context, file)?;
        let mut seen = BTreeSet::new();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        for (index, line) in lines {
            let bad = |what: String| {
                let place = format!("line {} of {}", index + 1, file.display());
                Failure::new(Exit::Input, format!("{place}: {what}")).hint("nothing was imported")
            };
            let (id, answer) = line_of(api, &known, line).map_err(bad)?;
            let Some(row) = known.asked.get(id.as_str()) else {
                let what = format!("this batch has no question with the custom_id {id}");
                return Err(bad(what).hint("is it a file of another batch? nothing was imported"));
            };
            if !seen.insert(id.clone()) {
                return Err(bad(format!("the custom_id {id} comes twice in this file")));
            }
            let failed = |reason, reason_code| FailedQuestion { reason, reason_code };
            match answer {
                BatchAnswer::Reply(reply) => {
                    let reply = of_row(row, *reply);
                    let kept = imported.answers.get(&id).or_else(|| folder.answers.get(&id));
                    if kept.is_some_and(|kept| *kept != reply) {
                        let what = format!("the question {id} has another answer already");
                        let hint = "was its file sent twice? The first answer stays, and nothing was imported";
                        return Err(bad(what).hint(hint));
                    }
                    imported.answers.insert(id, reply);
                }
                BatchAnswer::Otherwise(why) => {
                    let why = format!("the server refused a part of the question: {why}");
                    imported.failed.insert(id, failed(why, "model_error"));
                }
                BatchAnswer::Refused(why) => {
                    let why = format!("the server refused the question: {why}");
                    imported.failed.insert(id, failed(why, "model_error"));
                }
                BatchAnswer::Again => {
                    let why = "the server did not answer: it failed, or the batch expired or was cancelled";
                    imported.failed.insert(id, failed(why.to_owned(), "unavailable"));
                }
            }
        }
    }
    let ImportedAnswers { answers, failed } = &mut imported;
    failed.retain(|id, _| !answers.contains_key(id) && !folder.answers.contains_key(id));
    Ok(imported)
}

fn text_of(context: &Context, file: &Path) -> Result<String, Failure> {
    let cannot = || Failure::new(Exit::Input, format!("cannot read {}", file.display()));
    let disk = &*context.machine.disk;
    match disk.stat(file) {
        Ok(None) => return Err(cannot().hint("there is no such file")),
        Ok(Some(stat)) if stat.len > BYTES_MAX => {
            return Err(cannot().hint(format!("it has more than {BYTES_MAX} bytes")));
        }
        Ok(Some(_)) => {}
        Err(error) => return Err(cannot().because(&error)),
    }
    let bytes = disk.read(file).map_err(|error| cannot().because(&error))?;
    let text = String::from_utf8(bytes).map_err(|error| cannot().because(&error))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// What is known before the first answer is read.
struct Known<'a> {
    asked: BTreeMap<&'a str, &'a AskedRow>,
    dialects: BTreeMap<&'a str, Dialect>,
}

fn line_of(
    api: &dyn BatchApi,
    known: &Known<'_>,
    line: &str,
) -> Result<(String, BatchAnswer), String> {
    let value: Value =
        serde_json::from_str(line).map_err(|error| format!("it is not JSON: {error}"))?;
    let is_question = value["body"].is_object() || value["params"].is_object();
    let row = value["custom_id"].as_str().and_then(|id| known.asked.get(id));
    let model = row.map(|row| row.identity.model_name.as_str()).unwrap_or_default();
    let nothing = Dialect::default();
    // A person stands between the files, so nothing goes round for ever.
    let ago = Duration::MAX;
    let asked = AskedModel { model, ago, known: known.dialects.get(model).unwrap_or(&nothing) };
    api.answer_line(asked, &value).ok_or_else(|| match is_question {
        true => {
            "it is a question: this is the file that you send, not the file of answers".to_owned()
        }
        false => "it is not an answer of a batch of this provider".to_owned(),
    })
}

/// The answer as the question's own: a file does not know who was asked how.
fn of_row(row: &AskedRow, reply: ModelReply) -> ModelReply {
    let answered = match reply.identity.model_version.as_str() {
        "" => reply.identity.model_name.as_str(),
        version => version,
    };
    let mut identity = row.identity.clone();
    if answered != identity.model_name {
        identity.model_version = answered.to_owned();
    }
    ModelReply { identity, redacted: row.redacted, ..reply }
}
