//! What a model answered and how an item was made from its answers.

use serde::{Deserialize, Serialize};

use super::JsonObject;
use crate::contract::hash::Digest;
use crate::contract::vocabulary::words;

/// Most tokens that one call can have: sums of counts must fit.
const TOKENS_MAX: u64 = 1 << 30;

words! {
    /// Why the model stopped.
    StopReason {
        /// It was done.
        End = 1 "end",
        /// It ran into the token limit: the answer is cut off.
        Length = 2 "length",
        /// The provider withheld the answer.
        Filtered = 3 "filtered",
    }
}

/// Tokens of a call, as the provider counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
}

impl Usage {
    /// The counts of a server, cut to what one call can have.
    pub fn counted(input_tokens: u64, output_tokens: u64) -> Usage {
        let within = |count: u64| count.min(TOKENS_MAX);
        Usage { input_tokens: within(input_tokens), output_tokens: within(output_tokens) }
    }

    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Adds another call's tokens.
    pub fn add(&mut self, other: Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// Which model answered, as the Summary Bus records it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModelIdentity {
    /// Name of the provider in the configuration.
    pub provider: String,
    pub model_name: String,
    /// Empty when unavailable.
    pub model_version: String,
    /// Sampling temperature; `None` when unknown.
    pub temperature: Option<f64>,
    /// Most tokens of an answer; `None` when unknown.
    pub max_tokens: Option<u32>,
    /// Whether a deterministic mode is on; `None` when the provider has none.
    pub deterministic_mode: Option<bool>,
    /// Sampling seed, when one is set.
    pub seed: Option<i64>,
}

/// An answer that was paid for. Its text is the record's body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerFacts {
    pub identity: ModelIdentity,
    pub usage: Usage,
    pub stop: StopReason,
}

/// How an item was made: what is not in the item itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The flow with its variant.
    pub flow: String,
    pub pack_hash: Digest,
    pub prompt_hash: Digest,
    pub rendered_prompt_sha256: Digest,
    /// The template engine and its version.
    pub engine: String,
    pub engine_version: String,
    /// The model that answered last.
    pub model: ModelIdentity,
    /// Tokens that this attempt paid for.
    pub usage: Usage,
    pub calls: Vec<CallFacts>,
    pub warnings: Vec<String>,
    /// Parameters that the configuration set; the request's own are in the request.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub configured_params: JsonObject,
}

/// A warning that begins so names the parameters that were not used.
pub(crate) const PARAMS_IGNORED: &str = "parameters not used, because ";

impl Provenance {
    /// The warning that names the parameters that were not used.
    pub(crate) fn ignored_params(&self) -> Option<&str> {
        let mut all = self.warnings.iter().map(String::as_str);
        all.find(|warning| warning.starts_with(PARAMS_IGNORED))
    }
}

fn is_empty(params: &JsonObject) -> bool {
    params.0.is_empty()
}

/// One call of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFacts {
    /// The node that asked.
    pub node: String,
    /// 0 for the question itself, then one for each repair or raised limit.
    pub turn: u32,
    /// Hash of everything the answer depends on; a provider that is free has none.
    pub request_hash: Option<Digest>,
    pub rendered_sha256: Digest,
    /// True when the answer came from the log and cost nothing.
    pub reused: bool,
    pub stop: StopReason,
}
