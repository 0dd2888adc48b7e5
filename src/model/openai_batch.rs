//! Batches of OpenAI: a file of questions is uploaded and worked through within a day.
//!
//! The batch carries our name in its metadata, so it is found again after a crash.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::batch_api::{AskedModel, BatchAnswer, BatchApi, BatchLine, BatchLook, FoundBatch};
use super::call::{Api, ModelCall};
use super::dialect::Dialect;
use super::error::ModelError;
use super::http::{Endpoint, HttpReply};
use super::openai::{OpenAi, may_stream};
use super::stream::{STREAM, STREAM_OPTIONS};
use crate::contract::time::Timestamp;
use crate::facts::batch::BatchEnd;
use crate::facts::dialect::LearnedDialect;

const TIMEOUT: Duration = Duration::from_secs(120);
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(900);
/// The member of the metadata that holds our name.
const TAG: &str = "summarizer_batch";
/// Pages of the list of batches that are looked at, and entries of each.
const PAGES_MAX: usize = 20;
const PAGE: usize = 100;
const MODELS: &str = "/models";
/// Codes of questions that were not asked, or that the server failed at.
const ASKED_LATER: &[&str] = &["batch_expired", "batch_cancelled", "server_error"];

impl OpenAi {
    pub(super) fn as_line(&self, call: &ModelCall<'_>) -> Option<BatchLine> {
        let dialect = self.dialects.of(self.model(call));
        let cuts = dialect.leaves_out("stop") && !call.settings.stop.is_empty();
        // What is more than one text needs the call to be read.
        let is_chat = call.settings.api == Api::Chat && may_stream(&call.settings);
        if !is_chat || cuts {
            return None;
        }
        let mut body = self.body(call, &dialect);
        for name in [STREAM, STREAM_OPTIONS] {
            body.shift_remove(name);
        }
        let identity = self.asked(call, &dialect);
        let left_out = self.left_out(call, &dialect);
        Some(BatchLine { body: Value::Object(body), identity, redacted: 0, left_out })
    }

    fn accepted(&self, reply: HttpReply) -> Result<Value, ModelError> {
        reply.map_err(|refused| {
            self.endpoint.judge(&refused, self.config.model.as_deref().unwrap_or_default())
        })
    }

    fn batch(&self, id: &str) -> Result<Value, ModelError> {
        let path = self.path_of(&format!("/batches/{id}"));
        self.accepted(self.endpoint.get(&path, &self.headers(), TIMEOUT)?)
    }

    fn path_of(&self, resource: &str) -> String {
        // Azure has its batches beside its models, whatever the deployment.
        self.path(MODELS, "").trim_end_matches(MODELS).to_owned() + resource
    }

    /// What is asked of each question. Azure with a version in its query names it without `/v1`.
    fn asked_path(&self) -> &'static str {
        let address = self.endpoint.address();
        match self.azure && address.is_some_and(|address| address.has_parameter("api-version")) {
            true => "/chat/completions",
            false => "/v1/chat/completions",
        }
    }

    fn answer(&self, asked: AskedModel<'_>, line: &Value) -> BatchAnswer {
        let (response, error) = (&line["response"], &line["error"]);
        let code = error["code"].as_str().unwrap_or_default();
        match response["status_code"].as_u64() {
            Some(200) => answer_of(|call| self.reply(call, &Dialect::default(), &response["body"])),
            Some(429) | Some(500..) => BatchAnswer::Again,
            Some(400 | 404 | 422) => {
                self.dialects.refused_later(&self.endpoint, asked, &response["body"])
            }
            Some(_) => BatchAnswer::Refused(self.endpoint.line_error(&response["body"])),
            // It was not asked: the batch expired or was cancelled.
            None if code.is_empty() || ASKED_LATER.contains(&code) => BatchAnswer::Again,
            // Any other reason would come again in each batch.
            None => self.dialects.refused_later(&self.endpoint, asked, &json!({"error": error})),
        }
    }
}

/// What a provider makes of the response to a question that is not at hand any more.
pub(super) fn answer_of(
    reply: impl FnOnce(&ModelCall<'_>) -> Result<super::reply::ModelReply, ModelError>,
) -> BatchAnswer {
    let inputs = Map::new();
    let call = ModelCall {
        flow_id: "",
        variant: None,
        node: "",
        messages: &[],
        inputs: &inputs,
        sources: &[],
        schema: None,
        validator: None,
        hints: None,
        settings: super::call::CallSettings::default(),
        timeout: TIMEOUT,
        listener: None,
        bill: None,
        model: None,
        apart: false,
        speakers: None,
        kept_as: "",
    };
    match reply(&call) {
        Ok(reply) => BatchAnswer::Reply(Box::new(reply)),
        // Asked alone, the model gives its reason in the usual way.
        Err(error) => BatchAnswer::Refused(error.to_string()),
    }
}

/// The name of an entry, safe as a part of a path.
pub(super) fn id_of(endpoint: &Endpoint, value: &Value) -> Result<String, ModelError> {
    let id = value["id"].as_str().filter(|id| is_plain(id));
    id.map(str::to_owned).ok_or_else(|| {
        let cause = crate::contract::vocabulary::FailureCause::InvalidAnswer;
        endpoint.transient(cause, "the response names no id".to_owned(), None)
    })
}

fn is_plain(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
    !id.is_empty() && id.len() <= 200 && id.chars().all(plain)
}

impl BatchApi for OpenAi {
    fn question_line(&self, name: &str, body: &Value) -> Value {
        json!({"custom_id": name, "method": "POST", "url": self.asked_path(), "body": body})
    }

    fn answer_line(&self, asked: AskedModel<'_>, line: &Value) -> Option<(String, BatchAnswer)> {
        let name = line["custom_id"].as_str()?;
        let is_answer = line.get("response").is_some() || line.get("error").is_some();
        is_answer.then(|| (name.to_owned(), self.answer(asked, line)))
    }

    fn dialect(&self, model: &str) -> LearnedDialect {
        self.dialects.learned(&self.endpoint, model)
    }

    fn submit(&self, tag: &str, lines: &[(String, Value)]) -> Result<String, ModelError> {
        let mut content = String::new();
        for (name, body) in lines {
            content.push_str(&self.question_line(name, body).to_string());
            content.push('\n');
        }
        let (headers, file) = (self.headers(), format!("{tag}.jsonl"));
        let (purpose, file) = (("purpose", "batch"), (file.as_str(), content.as_str()));
        let path = self.path_of("/files");
        let uploaded = self.endpoint.upload(&path, purpose, file, &headers, UPLOAD_TIMEOUT)?;
        let file = id_of(&self.endpoint, &self.accepted(uploaded)?)?;
        let order = json!({
            "input_file_id": file, "endpoint": self.asked_path(),
            "completion_window": "24h", "metadata": {TAG: tag},
        });
        let made =
            self.endpoint.post(&self.path_of("/batches"), &order, &headers, TIMEOUT, None)?;
        id_of(&self.endpoint, &self.accepted(made)?)
    }

    fn find(
        &self,
        tag: &str,
        _names: &BTreeSet<String>,
        since: Timestamp,
    ) -> Result<FoundBatch, ModelError> {
        let (mut after, oldest) = (String::new(), since.plus_ms(-3_600_000).0 / 1000);
        let endpoint = &self.endpoint;
        for _ in 0..PAGES_MAX {
            let path = self.path_of(&format!("/batches?limit={PAGE}{after}"));
            let list = self.accepted(endpoint.get(&path, &self.headers(), TIMEOUT)?)?;
            let entries = list["data"].as_array().map(Vec::as_slice).unwrap_or_default();
            if let Some(ours) = entries.iter().find(|entry| entry["metadata"][TAG] == tag) {
                return id_of(endpoint, ours).map(FoundBatch::At);
            }
            let Some(last) = entries.last() else { break };
            // The newest come first.
            let is_older = last["created_at"].as_i64().is_some_and(|at| at < oldest);
            if list["has_more"] != true || is_older {
                break;
            }
            after = format!("&after={}", id_of(endpoint, last)?);
        }
        Ok(FoundBatch::Nowhere)
    }

    fn look(&self, id: &str) -> Result<BatchLook, ModelError> {
        let batch = self.batch(id)?;
        let end = match batch["status"].as_str().unwrap_or_default() {
            "completed" => Some(BatchEnd::Completed),
            "expired" => Some(BatchEnd::Expired),
            "cancelled" => Some(BatchEnd::Cancelled),
            "failed" => Some(BatchEnd::Refused),
            _ => None,
        };
        let errors = batch["errors"]["data"].as_array().into_iter().flatten();
        let said = errors.map(|error| {
            let code = error["code"].as_str().unwrap_or_default();
            format!("{code}: {}", self.endpoint.line_error(&json!({"error": error})))
        });
        let message = said.take(3).collect::<Vec<_>>().join("; ");
        Ok(BatchLook { end, message })
    }

    fn answers(
        &self,
        id: &str,
        asked: AskedModel<'_>,
    ) -> Result<Vec<(String, BatchAnswer)>, ModelError> {
        let batch = self.batch(id)?;
        let mut answers = Vec::new();
        let files = ["output_file_id", "error_file_id"].map(|name| batch[name].as_str());
        for file in files.into_iter().flatten().filter(|id| is_plain(id)) {
            let path = self.path_of(&format!("/files/{file}/content"));
            let mut each = |line: Value| answers.extend(self.answer_line(asked, &line));
            let read = self.endpoint.lines(&path, &self.headers(), UPLOAD_TIMEOUT, &mut each)?;
            self.accepted(read)?;
        }
        Ok(answers)
    }

    fn cancel(&self, id: &str) -> Result<(), ModelError> {
        let path = self.path_of(&format!("/batches/{id}/cancel"));
        let told = self.endpoint.post(&path, &json!({}), &self.headers(), TIMEOUT, None)?;
        self.accepted(told).map(drop)
    }

    fn clear(&self, id: &str) {
        let Ok(batch) = self.batch(id) else { return };
        for name in ["input_file_id", "output_file_id", "error_file_id"] {
            if let Some(file) = batch[name].as_str().filter(|id| is_plain(id)) {
                let path = self.path_of(&format!("/files/{file}"));
                self.endpoint.delete(&path, &self.headers(), TIMEOUT);
            }
        }
    }
}
