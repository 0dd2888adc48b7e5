//! The trait of everything that answers.

use std::time::Duration;

use super::batch_api::{BatchApi, BatchLine};
use super::call::ModelCall;
use super::error::ModelError;
use super::reply::{ModelIdentity, ModelReply};
use crate::config::Profile;
use crate::contract::time::Timestamp;
use crate::contract::vocabulary::FailureCause;
use crate::facts::dialect::LearnedDialect;

/// A provider that gets no calls for a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resting {
    /// When it is asked again. Until then its calls wait or are put off.
    pub until: Timestamp,
    pub cause: FailureCause,
    /// What it answered last.
    pub words: String,
}

/// Name of the embedded provider.
pub(crate) const BUILTIN: &str = "builtin";

/// A model that answers.
///
/// A provider around another one names it as [`inner`](Provider::inner). What it does not say itself
/// is what the inner provider says.
pub trait Provider: Send + Sync {
    /// The provider that this one is put around.
    fn inner(&self) -> Option<&dyn Provider> {
        None
    }

    /// Who will answer, as far as that is known before the call.
    fn identity(&self) -> ModelIdentity;

    /// How many tokens a prompt and its answer may have together.
    fn context_tokens(&self) -> usize;

    /// False when that number is a cautious guess: neither the configuration nor the server tells it.
    fn context_is_known(&self) -> bool {
        self.inner().is_none_or(Provider::context_is_known)
    }

    /// The context of another of its models, and whether it is known.
    fn context_of(&self, model: &str) -> (usize, bool) {
        let own = || (self.context_tokens(), self.context_is_known());
        self.inner().map_or_else(own, |inner| inner.context_of(model))
    }

    /// Asks once.
    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError>;

    /// True when an answer is free and always the same, so that caching it is pointless.
    fn is_free(&self) -> bool {
        self.inner().is_some_and(Provider::is_free)
    }

    /// Whether every question must come to this provider, also one that the embedded summarizer answers.
    fn hears_all(&self) -> bool {
        self.inner().is_some_and(Provider::hears_all)
    }

    /// Whether an answer may be made from the texts of the call themselves, not only from its messages.
    fn reads_texts(&self) -> bool {
        self.inner().is_some_and(Provider::reads_texts)
    }

    /// The profile of a model: of the named one, else of the default model of this provider.
    fn profile_of(&self, model: Option<&str>) -> Profile {
        self.inner().map_or(Profile::Whole, |inner| inner.profile_of(model))
    }

    /// What the configured model was found to refuse since the program started, one fact a line.
    fn learned(&self) -> Vec<String> {
        self.inner().map(Provider::learned).unwrap_or_default()
    }

    /// Speaks a dialect that was learned before this process began, for the time that is left of it.
    fn recall(&self, learned: &LearnedDialect, left: Duration) {
        if let Some(inner) = self.inner() {
            inner.recall(learned, left);
        }
    }

    /// Why and until when it gets no calls, if it gets none.
    fn rests(&self) -> Option<Resting> {
        self.inner().and_then(Provider::rests)
    }

    /// Tokens a second of its newest answers; `None` until one was counted.
    fn tokens_per_second(&self) -> Option<f64> {
        self.inner().and_then(Provider::tokens_per_second)
    }

    /// The call as a line of a batch; `None` where it must be asked alone.
    fn batch_line(&self, call: &ModelCall<'_>) -> Option<BatchLine> {
        self.inner()?.batch_line(call)
    }

    /// The batch lane, where there is one.
    fn batches(&self) -> Option<&dyn BatchApi> {
        self.inner()?.batches()
    }

    /// The models that the server lists; `None` where it lists none, or where there is no server.
    /// Sends no text and costs nothing.
    fn models(&self, within: Duration) -> Result<Option<Vec<String>>, ModelError> {
        self.inner().map_or(Ok(None), |inner| inner.models(within))
    }
}
