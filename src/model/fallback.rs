//! Providers that take over from each other, and a provider that is asked for another model.

use std::sync::Arc;
use std::time::Duration;

use super::batch_api::BatchLine;
use super::call::{Listener, ModelCall};
use super::deadline::Alive;
use super::error::{ErrorClass, ModelError};
use super::provider::Provider;
use super::reply::{ModelIdentity, ModelReply, StopReason};
use crate::config::Profile;
use crate::contract::vocabulary::FailureCause;
use crate::os::Clock;

/// When a member of a chain that failed is asked again while another one asks for a longer pause.
const FAILED_AGAIN: Duration = Duration::from_secs(30);

/// A provider and the providers that are asked in order when it fails.
pub(super) struct Fallback {
    chain: Vec<Arc<dyn Provider>>,
    clock: Arc<dyn Clock>,
}

impl Fallback {
    pub(super) fn new(
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
    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.chain[0])
    }

    fn identity(&self) -> ModelIdentity {
        self.chain[0].identity()
    }

    fn context_tokens(&self) -> usize {
        self.chain[0].context_tokens()
    }

    fn reads_texts(&self) -> bool {
        self.chain.iter().any(|provider| provider.reads_texts())
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        let mut errors: Vec<ModelError> = Vec::new();
        let alive = Alive::new(&*self.clock);
        let listening = alive.listening(call.listener);
        for (place, provider) in self.chain.iter().enumerate() {
            if call.right_of_way().ends() {
                errors.push(ModelError::ends(provider.identity().provider));
                break;
            }
            let left = alive.left_of(call.timeout);
            // Every provider but the last leaves half of the time to those after it.
            let last = place + 1 == self.chain.len();
            let timeout = if last { left } else { left / 2 };
            let listener: Option<&dyn Listener> = Some(&listening);
            match provider.call(&ModelCall { timeout, listener, ..call.clone() }) {
                // A model that reached its limit before its first word gets a higher one first.
                Ok(reply)
                    if !last
                        && has_no_text(&**provider, &reply)
                        && !may_be_raised(call, &reply) =>
                {
                    errors.push(ModelError::Transient {
                        provider: reply.identity.provider,
                        reason: "its answer has no text".into(),
                        retry_after: None,
                        cause: FailureCause::InvalidAnswer,
                    });
                }
                Ok(reply) if has_no_text(&**provider, &reply) => return Ok(reply),
                Ok(reply) => {
                    for (failed, error) in self.chain.iter().zip(&errors) {
                        if let Some(bill) = call.bill {
                            bill.passed_over(&failed.identity(), error, &reply.identity.provider);
                        }
                    }
                    return Ok(reply);
                }
                // A refusal is an answer: no other model is asked to override it.
                Err(error) if error.class() == ErrorClass::Refused => return Err(error),
                // Its answer is on the way.
                Err(error) if error.waits_for_batch() => return Err(error),
                Err(error) => errors.push(error),
            }
        }
        // Of equals the first: it is about the provider that was asked for.
        let place = |error: &ModelError| std::cmp::Reverse(hope(error));
        let best = (0..errors.len()).min_by_key(|at| place(&errors[*at]));
        let soonest = errors.iter().filter_map(asked_again_in).min();
        let mut most_hopeful = errors.remove(best.expect("a chain has at least one provider"));
        if let (ModelError::Paused { retry_after, .. }, Some(soonest)) =
            (&mut most_hopeful, soonest)
        {
            *retry_after = soonest.min(*retry_after);
        }
        Err(most_hopeful.beside(&errors))
    }
}

/// Whether an answer says nothing. The embedded summarizer says nothing about a text without content, and
/// an answer that a guard withheld is a refusal.
fn has_no_text(provider: &dyn Provider, reply: &ModelReply) -> bool {
    !provider.is_free() && reply.stop != StopReason::Filtered && reply.says_nothing()
}

fn may_be_raised(call: &ModelCall<'_>, reply: &ModelReply) -> bool {
    reply.stop == StopReason::Length && !call.settings.raised
}

/// How much a later attempt may hope for after an error. A provider that only asks for a wait
/// answers soon and costs no attempt; one that failed may answer; a budget is open again tomorrow, and an
/// account that is spent once somebody adds to it.
fn hope(error: &ModelError) -> u8 {
    match error {
        // The caller can shorten the input, and the next call may then succeed immediately.
        ModelError::OverLimit { .. } => 4,
        ModelError::Paused { cause: FailureCause::QuotaUsedUp, .. } => 1,
        ModelError::Paused { .. } => 3,
        ModelError::Transient { .. } | ModelError::Timeout { .. } => 2,
        ModelError::Budget { .. } => 1,
        ModelError::Permanent { .. } | ModelError::Refused { .. } => 0,
    }
}

/// The pause after which a provider can be asked again, where that is worth a try.
fn asked_again_in(error: &ModelError) -> Option<Duration> {
    match error {
        ModelError::Transient { .. } | ModelError::Timeout { .. } => {
            Some(error.retry_after().unwrap_or(FAILED_AGAIN))
        }
        error => error.retry_after(),
    }
}

/// A provider that is asked for another of its models.
pub(crate) struct WithModel {
    inner: Arc<dyn Provider>,
    model: String,
}

impl WithModel {
    pub(super) fn new(inner: Arc<dyn Provider>, model: &str) -> WithModel {
        WithModel { inner, model: model.to_owned() }
    }
}

impl Provider for WithModel {
    fn inner(&self) -> Option<&dyn Provider> {
        Some(&*self.inner)
    }

    fn identity(&self) -> ModelIdentity {
        ModelIdentity { model_name: self.model.clone(), ..self.inner.identity() }
    }

    fn context_tokens(&self) -> usize {
        self.inner.context_of(&self.model).0
    }

    fn context_is_known(&self) -> bool {
        self.inner.context_of(&self.model).1
    }

    fn profile_of(&self, model: Option<&str>) -> Profile {
        self.inner.profile_of(model.or(Some(&self.model)))
    }

    fn batch_line(&self, call: &ModelCall<'_>) -> Option<BatchLine> {
        self.inner.batch_line(&ModelCall { model: Some(&self.model), ..call.clone() })
    }

    fn call(&self, call: &ModelCall<'_>) -> Result<ModelReply, ModelError> {
        self.inner.call(&ModelCall { model: Some(&self.model), ..call.clone() })
    }
}
