//! Message batches of Anthropic: the questions are sent in one request and worked through within a day.
//!
//! The server keeps no name of ours for a batch. After a crash, a batch of the right size and time is
//! known by the names of its questions, which its results repeat. Until it has ended, it may be ours.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::anthropic::Anthropic;
use super::batch_api::{AskedModel, BatchAnswer, BatchApi, BatchLine, BatchLook, FoundBatch};
use super::call::ModelCall;
use super::dialect::Dialect;
use super::error::ModelError;
use super::http::HttpReply;
use super::openai_batch::{answer_of, id_of};
use super::stream::STREAM;
use crate::contract::time::{Timestamp, parse_instant};
use crate::facts::batch::BatchEnd;
use crate::facts::dialect::LearnedDialect;

const TIMEOUT: Duration = Duration::from_secs(120);
const SUBMIT_TIMEOUT: Duration = Duration::from_secs(900);
const BATCHES: &str = "messages/batches";
/// Pages of the list of batches that are looked at.
const PAGES_MAX: usize = 20;
/// How much the clocks of this machine and of the server may differ, and how long the sending may take.
const AROUND_MS: i64 = 3_600_000;
/// Errors of the server itself. The same question may be answered later.
const ASKED_LATER: &[&str] =
    &["api_error", "overloaded_error", "rate_limit_error", "timeout_error"];

impl Anthropic {
    pub(super) fn as_line(&self, call: &ModelCall<'_>) -> Option<BatchLine> {
        if call.settings.whole_reply {
            return None;
        }
        let dialect = self.dialects.of(self.model(call));
        // Questions of a batch are worked through apart, so none finds what another left in the cache.
        let mut body = self.body(call, &dialect, &OnceCell::from(false));
        body.shift_remove(STREAM);
        let identity = self.asked(call, &dialect);
        let left_out = self.left_out(call, &dialect);
        Some(BatchLine { body: Value::Object(body), identity, redacted: 0, left_out })
    }

    fn accepted(&self, reply: HttpReply) -> Result<Value, ModelError> {
        reply.map_err(|refused| {
            self.endpoint.judge(&refused, self.config.model.as_deref().unwrap_or_default())
        })
    }

    fn results(&self, id: &str, each: &mut dyn FnMut(Value)) -> Result<(), ModelError> {
        let path = self.path(&format!("{BATCHES}/{id}/results"));
        let read = self.endpoint.lines(&path, &self.headers(), SUBMIT_TIMEOUT, each)?;
        self.accepted(read).map(drop)
    }
}

fn has_ended(batch: &Value) -> bool {
    batch["processing_status"] == "ended"
}

impl BatchApi for Anthropic {
    fn question_line(&self, name: &str, body: &Value) -> Value {
        json!({"custom_id": name, "params": body})
    }

    fn answer_line(&self, asked: AskedModel<'_>, line: &Value) -> Option<(String, BatchAnswer)> {
        let name = line["custom_id"].as_str()?;
        let result = line.get("result")?;
        let answer = match result["type"].as_str() {
            Some("succeeded") => {
                answer_of(|call| self.reply(call, &Dialect::default(), &result["message"]))
            }
            // Any other error would come again in each batch.
            Some("errored") => {
                let kind = result["error"]["error"]["type"].as_str().unwrap_or_default();
                match kind {
                    _ if kind.is_empty() || ASKED_LATER.contains(&kind) => BatchAnswer::Again,
                    "invalid_request_error" => {
                        self.dialects.refused_later(&self.endpoint, asked, &result["error"])
                    }
                    _ => BatchAnswer::Refused(self.endpoint.line_error(&result["error"])),
                }
            }
            // It was not asked: the batch expired or was cancelled.
            _ => BatchAnswer::Again,
        };
        Some((name.to_owned(), answer))
    }

    fn dialect(&self, model: &str) -> LearnedDialect {
        self.dialects.learned(&self.endpoint, model)
    }

    fn submit(&self, _tag: &str, lines: &[(String, Value)]) -> Result<String, ModelError> {
        let requests: Vec<Value> =
            lines.iter().map(|(name, body)| self.question_line(name, body)).collect();
        let (path, order) = (self.path(BATCHES), json!({"requests": requests}));
        let made = self.endpoint.post(&path, &order, &self.headers(), SUBMIT_TIMEOUT, None)?;
        id_of(&self.endpoint, &self.accepted(made)?)
    }

    fn find(
        &self,
        _tag: &str,
        names: &BTreeSet<String>,
        since: Timestamp,
    ) -> Result<FoundBatch, ModelError> {
        let (mut after, mut perhaps) = (String::new(), false);
        for _ in 0..PAGES_MAX {
            let path = self.path(&format!("{BATCHES}?limit=100{after}"));
            let list = self.accepted(self.endpoint.get(&path, &self.headers(), TIMEOUT)?)?;
            let entries = list["data"].as_array().map(Vec::as_slice).unwrap_or_default();
            let mut is_older = false;
            for entry in entries {
                let at = entry["created_at"].as_str().and_then(|at| parse_instant(at).ok());
                let passed = at.map_or(0, |at| at.at.ms_since(since));
                is_older |= passed < -AROUND_MS;
                let counts = entry["request_counts"].as_object().into_iter().flatten();
                let sum: u64 = counts.filter_map(|(_, count)| count.as_u64()).sum();
                // After 29 days the results are gone, so nothing tells whether it is ours.
                let is_archived = entry["archived_at"].is_string();
                if passed.abs() > AROUND_MS || sum != names.len() as u64 || is_archived {
                    continue;
                }
                if !has_ended(entry) {
                    perhaps = true;
                    continue;
                }
                let (id, mut ours) = (id_of(&self.endpoint, entry)?, false);
                self.results(&id, &mut |line| {
                    ours |= line["custom_id"].as_str().is_some_and(|name| names.contains(name));
                })?;
                if ours {
                    return Ok(FoundBatch::At(id));
                }
            }
            let Some(last) = entries.last().filter(|_| list["has_more"] == true && !is_older)
            else {
                break;
            };
            after = format!("&after_id={}", id_of(&self.endpoint, last)?);
        }
        Ok(if perhaps { FoundBatch::Perhaps } else { FoundBatch::Nowhere })
    }

    fn look(&self, id: &str) -> Result<BatchLook, ModelError> {
        let path = self.path(&format!("{BATCHES}/{id}"));
        let batch = self.accepted(self.endpoint.get(&path, &self.headers(), TIMEOUT)?)?;
        let count = |name: &str| batch["request_counts"][name].as_u64().unwrap_or(0);
        let end = match (count("canceled"), count("expired")) {
            _ if !has_ended(&batch) => None,
            (1.., _) => Some(BatchEnd::Cancelled),
            (_, 1..) => Some(BatchEnd::Expired),
            _ => Some(BatchEnd::Completed),
        };
        Ok(BatchLook { end, message: String::new() })
    }

    fn answers(
        &self,
        id: &str,
        asked: AskedModel<'_>,
    ) -> Result<Vec<(String, BatchAnswer)>, ModelError> {
        let mut answers = Vec::new();
        self.results(id, &mut |line| answers.extend(self.answer_line(asked, &line)))?;
        Ok(answers)
    }

    fn cancel(&self, id: &str) -> Result<(), ModelError> {
        let path = self.path(&format!("{BATCHES}/{id}/cancel"));
        let told = self.endpoint.post(&path, &json!({}), &self.headers(), TIMEOUT, None)?;
        self.accepted(told).map(drop)
    }

    fn clear(&self, id: &str) {
        let path = self.path(&format!("{BATCHES}/{id}"));
        self.endpoint.delete(&path, &self.headers(), TIMEOUT);
    }
}
