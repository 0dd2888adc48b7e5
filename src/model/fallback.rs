//! Providers that take over from each other, and a provider that is asked for another model.

use std::sync::Arc;

use super::call::ModelCall;
use super::deadline::time_left;
use super::error::{ErrorClass, ModelError};
use super::provider::Provider;
use super::reply::{ModelIdentity, ModelReply};
use crate::os::Clock;

/// A provider and the providers that are asked in order when it fails.
pub struct Fallback {
    chain: Vec<Arc<dyn Provider>>,
    clock: Arc<dyn Clock>,
}

impl Fallback {
    pub fn new(
        first: Arc<dyn Provider>,
        others: Vec<Arc<dyn Provider>>,
        clock: Arc<dyn Clock>,
    ) -> Fallback {
        let mut chain = vec![first];
        chain.extend(others);
        Fallback { chain, clock }
    }
}

impl Provider for Fallback {
    fn identity(&self) -> ModelIdentity {
        self.chain[0].identity()
    }

    fn context_tokens(&self) -> usize {
        self.chain[0].context_tokens()
    }

    fn context_is_known(&self) -> bool {
        self.chain[0].context_is_known()
    }

    fn is_free(&self) -> bool {
        self.chain[0].is_free()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let mut first_error = None;
        let begun = self.clock.now();
        for (place, provider) in self.chain.iter().enumerate() {
            let left = time_left(call.timeout, begun, self.clock.now());
            // Every provider but the last leaves half of the time to those after it.
            let last = place + 1 == self.chain.len();
            let timeout = if last { left } else { left / 2 };
            match provider.call(&ModelCall { timeout, ..call.clone() }) {
                Ok(reply) => return Ok(reply),
                // A refusal is an answer: no other model is asked to override it.
                Err(error) if error.class() == ErrorClass::Refused => return Err(error),
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        Err(first_error.expect("a chain has at least one provider"))
    }
}

/// A provider that is asked for another of its models.
pub struct WithModel {
    inner: Arc<dyn Provider>,
    model: String,
}

impl WithModel {
    pub fn new(inner: Arc<dyn Provider>, model: &str) -> WithModel {
        WithModel { inner, model: model.to_owned() }
    }
}

impl Provider for WithModel {
    fn identity(&self) -> ModelIdentity {
        ModelIdentity { model_name: self.model.clone(), ..self.inner.identity() }
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_tokens()
    }

    fn context_is_known(&self) -> bool {
        self.inner.context_is_known()
    }

    fn is_free(&self) -> bool {
        self.inner.is_free()
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        self.inner.call(&ModelCall { model: Some(&self.model), ..call.clone() })
    }
}
