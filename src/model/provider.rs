//! The trait of everything that answers.

use std::time::Duration;

use super::batch_api::{BatchApi, BatchLine};
use super::call::ModelCall;
use super::error::ModelError;
use super::reply::{ModelIdentity, ModelReply};

/// Name of the embedded provider.
pub(crate) const BUILTIN: &str = "builtin";

/// A model that answers.
pub trait Provider: Send + Sync {
    /// Who will answer, as far as that is known before the call.
    fn identity(&self) -> ModelIdentity;

    /// How many tokens a prompt and its answer may have together.
    fn context_tokens(&self) -> usize;

    /// False when that number is a cautious guess: neither the configuration nor the server tells it.
    fn context_is_known(&self) -> bool {
        true
    }

    /// The context of another of its models, and whether it is known.
    fn context_of(&self, _model: &str) -> (usize, bool) {
        (self.context_tokens(), self.context_is_known())
    }

    /// Asks once.
    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError>;

    /// True when an answer is free and always the same, so that caching it is pointless.
    fn is_free(&self) -> bool {
        false
    }

    /// What the configured model was found to refuse since the program started, one fact a line.
    fn learned(&self) -> Vec<String> {
        Vec::new()
    }

    /// Tokens a second of its newest answers; `None` until one was counted.
    fn tokens_per_second(&self) -> Option<f64> {
        None
    }

    /// The call as a line of a batch; `None` where it must be asked alone.
    fn batch_line(&self, _call: &ModelCall<'_>) -> Option<BatchLine> {
        None
    }

    /// The batch lane, where there is one.
    fn batches(&self) -> Option<&dyn BatchApi> {
        None
    }

    /// The models that the server lists; `None` where it lists none, or where there is no server.
    /// Sends no text and costs nothing.
    fn models(&self, _within: Duration) -> Result<Option<Vec<String>>, ModelError> {
        Ok(None)
    }
}
