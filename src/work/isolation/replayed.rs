//! The model of a flow that runs in a process: it answers from what the service sent, and notes every question
//! that has no answer yet.
//!
//! Contract. An open question fails like one that waits for a batch, so the flow comes to every question that
//! does not depend on it and then ends. The same answers in the same order give the same run: a question is
//! known by what it asks and by how often the run has asked the same, and what is known of the provider changes
//! with the answers as it changed when they arrived. So a run that comes to a further question has asked for all
//! answers that it got. One that has not would ask, and pay, without end.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::config::Profile;
use crate::contract::vocabulary::FailureCause;
use crate::flow::{LoadedPack, ReplyCache};
use crate::model::{ModelCall, ModelError, ModelIdentity, ModelReply, Provider};

use super::message::{
    Answered, HowAnswered, OpenQuestion, ProviderFacts, QuestionName, QuestionSchema, ReadTexts,
};

/// Most bytes of questions in one round. What is beyond waits for the next one.
const ROUND_BYTES_MAX: usize = 32 << 20;

pub(super) struct Replayed<'a> {
    pack: &'a LoadedPack,
    answers: HashMap<QuestionName, Answered>,
    state: Mutex<FlowState>,
}

/// How far the flow has come.
struct FlowState {
    provider: ProviderFacts,
    /// How often each question was asked.
    times: HashMap<String, u32>,
    /// The answers that the run asked for.
    used: HashSet<QuestionName>,
    open: Vec<OpenQuestion>,
    open_bytes: usize,
}

impl<'a> Replayed<'a> {
    pub(super) fn new(
        pack: &'a LoadedPack,
        provider: ProviderFacts,
        answers: Vec<Answered>,
    ) -> Replayed<'a> {
        let answers = answers.into_iter().map(|answer| (answer.name.clone(), answer)).collect();
        let (times, used, open) = (HashMap::new(), HashSet::new(), Vec::new());
        let state = FlowState { provider, times, used, open, open_bytes: 0 };
        Replayed { pack, answers, state: Mutex::new(state) }
    }

    /// The questions without an answer. An error names the node of the first one when the run is not as it was before.
    pub(super) fn open(self) -> Result<Vec<OpenQuestion>, String> {
        let FlowState { used, open, .. } = self.state.into_inner();
        match open.first() {
            Some(question) if used.len() < self.answers.len() => Err(question.node.clone()),
            _ => Ok(open),
        }
    }

    /// The name of a question, counted as asked once more.
    fn next(&self, of: &str) -> QuestionName {
        let mut state = self.state.lock();
        let times = state.times.entry(of.to_owned()).or_default();
        *times += 1;
        QuestionName { of: of.to_owned(), time: *times }
    }

    /// The name of a question that was counted already.
    fn latest(&self, of: &str) -> QuestionName {
        let time = self.state.lock().times.get(of).copied().unwrap_or_default();
        QuestionName { of: of.to_owned(), time }
    }

    /// A schema by its place in the pack, so that it does not travel with each question.
    fn named(&self, schema: &Value) -> QuestionSchema {
        let mut known = self.pack.schemas();
        match known.position(|one| std::ptr::eq(one, schema)) {
            Some(place) => QuestionSchema::OfPack(place),
            None => QuestionSchema::Other(schema.clone()),
        }
    }

    fn note(&self, name: QuestionName, call: &ModelCall<'_>) -> ModelError {
        let mut state = self.state.lock();
        let texts = state.provider.reads_texts.then(|| ReadTexts {
            inputs: call.inputs.clone(),
            sources: call.sources.to_vec(),
            speakers: call.speakers.cloned(),
        });
        let of_messages: usize = call.messages.iter().map(|message| message.text.len()).sum();
        let of_sources: usize = call.sources.iter().map(|source| source.text.len()).sum();
        state.open_bytes += of_messages + if texts.is_some() { of_sources } else { 0 };
        if state.open.is_empty() || state.open_bytes <= ROUND_BYTES_MAX {
            state.open.push(OpenQuestion {
                name,
                kept_as: call.kept_as.to_owned(),
                node: call.node.to_owned(),
                messages: call.messages.to_vec(),
                schema: call.schema.map(|schema| self.named(schema)),
                settings: call.settings.clone(),
                timeout: call.timeout,
                apart: call.apart,
                texts,
            });
        }
        ModelError::Paused {
            provider: state.provider.model.identity.provider.clone(),
            reason: "the service asks".into(),
            retry_after: Duration::ZERO,
            cause: FailureCause::Batch,
        }
    }
}

impl Provider for Replayed<'_> {
    fn identity(&self) -> ModelIdentity {
        self.state.lock().provider.model.identity.clone()
    }

    fn context_tokens(&self) -> usize {
        self.state.lock().provider.model.context_tokens
    }

    fn context_is_known(&self) -> bool {
        self.state.lock().provider.model.context_is_known
    }

    fn is_free(&self) -> bool {
        self.state.lock().provider.is_free
    }

    fn profile_of(&self, _: Option<&str>) -> Profile {
        self.state.lock().provider.model.profile
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        // Answers of a provider without cost have no stored name: the question and its order identify them.
        let name = match call.kept_as {
            "" => self.next(&format!("{}\n{}", call.node, call.request_hash())),
            kept_as => self.latest(kept_as),
        };
        let Some(answer) = self.answers.get(&name) else { return Err(self.note(name, call)) };
        let mut state = self.state.lock();
        state.provider = answer.provider.clone();
        state.used.insert(name.clone());
        drop(state);
        match &answer.how {
            HowAnswered::Fresh(reply) | HowAnswered::Kept(reply) => Ok(reply.clone()),
            HowAnswered::Failed(error) => Err(error.clone()),
            HowAnswered::Unreadable(_) => Err(self.note(name, call)),
        }
    }
}

impl ReplyCache for Replayed<'_> {
    fn get(&self, request_hash: &str) -> Result<Option<ModelReply>, String> {
        let name = self.next(request_hash);
        match self.answers.get(&name).map(|answer| &answer.how) {
            Some(HowAnswered::Kept(reply)) => {
                self.state.lock().used.insert(name);
                Ok(Some(reply.clone()))
            }
            Some(HowAnswered::Unreadable(reason)) => Err(reason.clone()),
            _ => Ok(None),
        }
    }

    /// The service keeps what it was answered.
    fn put(&self, _: &str, _: &ModelReply) {}
}
