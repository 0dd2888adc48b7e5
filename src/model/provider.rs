//! The trait of everything that answers.

use std::time::Duration;

use super::call::ModelCall;
use super::error::ModelError;
use super::reply::{ModelIdentity, ModelReply};

/// Name of the embedded provider.
pub const BUILTIN: &str = "builtin";

/// A model that answers.
pub trait Provider: Send + Sync {
    /// Who will answer, as far as that is known before the call.
    fn identity(&self) -> ModelIdentity;

    /// How many tokens a prompt and its answer may have together.
    fn context_tokens(&self) -> usize;

    /// False when that number is a cautious guess because the configuration names none.
    fn context_is_known(&self) -> bool {
        true
    }

    /// Asks once.
    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError>;

    /// True when an answer is free and always the same, so that caching it is pointless.
    fn is_free(&self) -> bool {
        false
    }

    /// The models that the server lists; `None` where it lists none, or where there is no server.
    /// Sends no text and costs nothing.
    fn models(&self, _within: Duration) -> Result<Option<Vec<String>>, ModelError> {
        Ok(None)
    }
}
