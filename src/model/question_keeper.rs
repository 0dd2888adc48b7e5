//! A provider that asks no server: it answers from what a file brought, and keeps the other questions as
//! lines of a file that a person sends.
//!
//! Contract. A question without an answer is kept, and its call fails with a pause. The model is known as
//! it was when the first file was written, so that the names of questions do not change later.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::batch_api::BatchApi;
use super::call::ModelCall;
use super::error::ModelError;
use super::provider::Provider;
use super::reply::{ModelIdentity, ModelReply};
use crate::config::Profile;
use crate::contract::hash::sha256;
use crate::contract::vocabulary::FailureCause;

/// What is known of a model before it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct KnownModel {
    pub identity: ModelIdentity,
    pub context_tokens: usize,
    pub context_is_known: bool,
    pub profile: Profile,
}

impl KnownModel {
    pub(crate) fn of(provider: &dyn Provider) -> KnownModel {
        KnownModel {
            identity: provider.identity(),
            context_tokens: provider.context_tokens(),
            context_is_known: provider.context_is_known(),
            profile: provider.profile_of(None),
        }
    }
}

/// A question that a flow came to.
#[derive(Debug, Clone)]
pub(crate) struct KeptQuestion {
    /// The hash of what is asked.
    pub name: String,
    /// The provider and model that the line of the file asks.
    pub identity: ModelIdentity,
    pub redacted: u64,
    /// Parameters of the question that its line does not have.
    pub left_out: Vec<String>,
    /// The line of the file; `None` for a question with an answer.
    pub line: Option<Value>,
}

/// Answers of files on the way in, questions for files on the way out.
pub(crate) struct QuestionKeeper<'a> {
    inner: &'a dyn Provider,
    files: &'a dyn BatchApi,
    model: &'a KnownModel,
    answers: &'a BTreeMap<String, ModelReply>,
    met: Mutex<BTreeMap<String, KeptQuestion>>,
}

impl<'a> QuestionKeeper<'a> {
    /// `None` for a provider that has no batches.
    pub(crate) fn new(
        inner: &'a dyn Provider,
        model: &'a KnownModel,
        answers: &'a BTreeMap<String, ModelReply>,
    ) -> Option<QuestionKeeper<'a>> {
        let files = inner.batches()?;
        Some(QuestionKeeper { inner, files, model, answers, met: Mutex::default() })
    }

    /// Every question that a flow came to, by name.
    pub(crate) fn met(self) -> BTreeMap<String, KeptQuestion> {
        self.met.into_inner()
    }
}

impl Provider for QuestionKeeper<'_> {
    fn identity(&self) -> ModelIdentity {
        self.model.identity.clone()
    }

    fn context_tokens(&self) -> usize {
        self.model.context_tokens
    }

    fn context_is_known(&self) -> bool {
        self.model.context_is_known
    }

    fn profile_of(&self, _: Option<&str>) -> Profile {
        self.model.profile
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let provider = self.model.identity.provider.clone();
        let name = sha256(call.kept_as).hex();
        let answer = self.answers.get(&name);
        let Some(line) = self.inner.batch_line(call) else {
            let (cause, node) = (FailureCause::Configuration, call.node);
            let reason = format!(
                "the question of node {node} cannot stand in a file: it has tools, several answers or \
                 another form than a chat; use `summarizer flow run`"
            );
            return Err(ModelError::Permanent { provider, reason: reason.into(), cause });
        };
        let question = KeptQuestion {
            line: answer.is_none().then(|| self.files.question_line(&name, &line.body)),
            identity: line.identity,
            redacted: line.redacted,
            left_out: line.left_out,
            name: name.clone(),
        };
        self.met.lock().insert(name, question);
        answer.cloned().ok_or_else(|| ModelError::Paused {
            provider,
            reason: "its answer was not imported yet".into(),
            retry_after: std::time::Duration::ZERO,
            cause: FailureCause::Batch,
        })
    }
}
