//! Recorded answers as reviewable JSON lines, and the recorder that writes them.
//!
//! A line is `{"request_hash", "flow_id", "variant", "node", "messages", "reply"}`. A call is answered by
//! the line with its request hash; else by the first unused line of its flow and node whose hash is
//! `null` (written by hand); else the call fails. No call reaches a network.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::call::{Message, ModelCall};
use super::error::ModelError;
use super::provider::Provider;
use super::reply::{ModelIdentity, ModelReply};
use crate::config::Profile;
use crate::contract::vocabulary::FailureCause;

/// Most lines of one recording.
const LINES_MAX: usize = 100_000;
/// Context where a recording names none.
const CONTEXT_TOKENS: usize = 1 << 20;

/// One recorded answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recording {
    /// Hash of the request; `null` answers any request of the node, once.
    pub request_hash: Option<String>,
    pub flow_id: String,
    #[serde(default)]
    pub variant: Option<String>,
    pub node: String,
    /// Context of the model that answered: it decides which inputs are condensed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<usize>,
    /// The conversation, for a person who reads the file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    pub reply: ModelReply,
}

/// A recording cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read line {line} of the recording: {reason}")]
pub(crate) struct BadRecording {
    /// 1-based.
    pub line: usize,
    pub reason: String,
}

/// Reads the lines of a recording.
pub(super) fn parse(text: &str) -> Result<Vec<Recording>, BadRecording> {
    let mut recordings = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |reason: String| BadRecording { line: index + 1, reason };
        if recordings.len() >= LINES_MAX {
            return Err(bad(format!("more than {LINES_MAX} lines")));
        }
        recordings.push(serde_json::from_str(line).map_err(|error| bad(error.to_string()))?);
    }
    Ok(recordings)
}

/// Answers from a recording.
#[derive(Debug)]
pub(crate) struct Recorded {
    name: String,
    by_hash: BTreeMap<String, ModelReply>,
    by_node: Mutex<BTreeMap<(String, String), Vec<ModelReply>>>,
    identity: Option<ModelIdentity>,
    context_tokens: usize,
    profile: Profile,
}

impl Recorded {
    /// Without a profile in the settings, the questions were those for the context that was recorded.
    pub(super) fn new(
        name: &str,
        profile: Option<Profile>,
        recordings: Vec<Recording>,
    ) -> Recorded {
        let identity = recordings.first().map(|recording| recording.reply.identity.clone());
        let context_tokens = recordings.first().and_then(|first| first.context_tokens);
        let mut by_hash = BTreeMap::new();
        let mut by_node: BTreeMap<_, Vec<ModelReply>> = BTreeMap::new();
        for recording in recordings {
            match recording.request_hash {
                Some(hash) => {
                    by_hash.insert(hash, recording.reply);
                }
                None => {
                    let key = (recording.flow_id, recording.node);
                    by_node.entry(key).or_default().push(recording.reply);
                }
            }
        }
        by_node.values_mut().for_each(|replies| replies.reverse());
        Recorded {
            name: name.to_owned(),
            by_hash,
            by_node: Mutex::new(by_node),
            identity,
            context_tokens: context_tokens.unwrap_or(CONTEXT_TOKENS),
            profile: Profile::of(profile, context_tokens),
        }
    }
}

impl Provider for Recorded {
    fn identity(&self) -> ModelIdentity {
        self.identity.clone().unwrap_or_else(|| ModelIdentity {
            provider: self.name.clone(),
            model_name: "recorded".to_owned(),
            ..ModelIdentity::default()
        })
    }

    fn context_tokens(&self) -> usize {
        self.context_tokens
    }

    fn profile_of(&self, _: Option<&str>) -> Profile {
        self.profile
    }

    fn context_is_known(&self) -> bool {
        false
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let hash = call.request_hash().hex();
        if let Some(reply) = self.by_hash.get(&hash) {
            return Ok(reply.clone());
        }
        let key = (call.flow_id.to_owned(), call.node.to_owned());
        let next = self.by_node.lock().get_mut(&key).and_then(Vec::pop);
        next.ok_or_else(|| ModelError::Permanent {
            provider: self.name.clone(),
            reason: format!(
                "the recording has no answer for node {} with request hash {hash}; record it with \
                 `summarizer flow run --record FILE`",
                call.node
            )
            .into(),
            cause: FailureCause::Configuration,
        })
    }
}

/// Passes calls to another provider and keeps its answers.
pub(crate) struct Recorder<P> {
    inner: P,
    recordings: Mutex<Vec<Recording>>,
}

impl<P: AsRef<dyn Provider>> Recorder<P> {
    pub(crate) fn new(inner: P) -> Recorder<P> {
        Recorder { inner, recordings: Mutex::default() }
    }

    /// The recording as the lines of a file, in an order that does not depend on threads.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut recordings = self.recordings.lock().clone();
        recordings.sort_by(|a, b| (&a.node, &a.request_hash).cmp(&(&b.node, &b.request_hash)));
        let line =
            |recording| serde_json::to_string(recording).ok().map(crate::contract::json::one_line);
        recordings.iter().filter_map(line).collect()
    }
}

impl<P: AsRef<dyn Provider> + Send + Sync> Provider for Recorder<P> {
    fn inner(&self) -> Option<&dyn Provider> {
        Some(self.inner.as_ref())
    }

    fn hears_all(&self) -> bool {
        true
    }

    fn identity(&self) -> ModelIdentity {
        self.inner.as_ref().identity()
    }

    fn context_tokens(&self) -> usize {
        self.inner.as_ref().context_tokens()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let reply = self.inner.as_ref().call(call)?;
        self.recordings.lock().push(Recording {
            request_hash: Some(call.request_hash().hex()),
            flow_id: call.flow_id.to_owned(),
            variant: call.variant.map(str::to_owned),
            node: call.node.to_owned(),
            context_tokens: Some(self.inner.as_ref().context_tokens()),
            messages: call.messages.to_vec(),
            reply: reply.clone(),
        });
        Ok(reply)
    }
}
